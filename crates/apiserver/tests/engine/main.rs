//! The engine through its Rust interface: opening, clients in process, virtual time, durability.

mod quiet;
