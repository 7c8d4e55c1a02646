//! The controllers, one module per family, each in the same five steps: parse, observe, decide,
//! execute, publish.
//!
//! A controller talks to the Kubernetes API through a client and to nothing else of the engine,
//! so it cannot tell whether it runs on a laptop or on a cluster.
