//! Pods as local processes: what a kubelet is to a cluster, this is to `sojourn up`.
//!
//! It is a client of the API like any other and knows none of our kinds, so the same node can
//! serve a real kube-apiserver.
