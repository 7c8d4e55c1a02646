//! The drain agent between two embedded engines on a virtual clock: one holds the Machines, the
//! other is the cluster whose Nodes are emptied. Nodes and attached volumes are played, and so are
//! budgets, but for `budget`, where the engine has its own.

mod budget;
mod cluster;
mod deadline;
mod end;
mod evict;
mod fixture;
mod kill;
