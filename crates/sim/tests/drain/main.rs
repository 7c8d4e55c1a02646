//! The drain agent between two embedded engines on a virtual clock: one holds the Machines, the
//! other is the cluster whose Nodes are emptied. Budgets, nodes and attached volumes are played.

mod cluster;
mod deadline;
mod end;
mod evict;
mod kill;
mod stage;
