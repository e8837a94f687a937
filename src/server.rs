//! One router for every local endpoint, and the thin transports that carry it.
