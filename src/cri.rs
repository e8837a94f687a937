//! CRI: the client that calls the runtime, and the pure translation of pods into its messages.
