//! The family `access` as a whole, on a virtual clock.

#[path = "access/clusters.rs"]
mod clusters;
#[path = "access/fault.rs"]
mod fault;
#[path = "access/fixture.rs"]
mod fixture;
#[path = "access/http.rs"]
mod http;
#[path = "access/idle.rs"]
mod idle;
#[path = "access/link.rs"]
mod link;
#[path = "access/page.rs"]
mod page;
#[path = "access/people.rs"]
mod people;
#[path = "access/replicas.rs"]
mod replicas;
