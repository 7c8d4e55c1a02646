//! The listener for people: sign-in, pages and live updates.
//!
//! It is a client of the API with the rights of whoever looks at the page; it cannot read a
//! controller's memory or the store.
