//! The outside that is not Kubernetes: machine providers, mail and chat, metrics queries, upload.
//!
//! Each is a port with a real adapter and a scripted fake that can delay, fail, answer stale and
//! duplicate. Nothing here sees a Kubernetes client, so a driver cannot decide about objects.
