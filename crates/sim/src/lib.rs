//! The whole system on a virtual clock: the real controllers on the real embedded API, with
//! scripted drivers and injected faults. A seed replays a run.
