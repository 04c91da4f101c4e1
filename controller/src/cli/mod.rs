//! The command line client `pulsepath`.
