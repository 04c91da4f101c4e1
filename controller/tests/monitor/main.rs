//! The monitor: health core and prober together, on a simulated network and clock.

mod hearsay;
mod interest;
mod keys;
mod leases;
mod nodes;
mod reports;
mod states;
mod tunnels;
mod world;
