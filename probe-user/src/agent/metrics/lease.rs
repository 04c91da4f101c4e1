//! Metrics of the node's lease and of the fence.

use std::fmt;

use tracing::warn;

use super::Metrics;
use crate::agent::beat::boot_now;
use crate::agent::in_words;
use crate::agent::reflector::View;
use crate::agent::status::Status;
use crate::kernel::{Fence, KernelError, Maps};

impl Metrics<'_> {
    pub(super) fn lease(&mut self, status: &Status) -> fmt::Result {
        let View::Kernel(maps) = &status.view else {
            // It never has one.
            return Ok(());
        };
        let fenced = status.fenced.iter().map(|device| match device {
            Ok(fenced) => (vec![("device", fenced.device.as_str())], 1.0),
            Err(not_fenced) => (vec![("device", not_fenced.device.as_str())], 0.0),
        });
        let help = "Whether the fence is in force on a device where egress IPs can leave; the log says \
                    why not";
        self.gauges("fence_in_force", help, fenced)?;
        match self.kernel_lease(maps, status.fence.as_ref()) {
            Ok(written) => written,
            Err(error) => {
                warn!(error = in_words(&error), "cannot read the lease");
                Ok(())
            }
        }
    }

    fn kernel_lease(
        &mut self,
        maps: &Maps,
        fence: Option<&Fence>,
    ) -> Result<fmt::Result, KernelError> {
        let lease = maps.lease()?;
        let counters = fence.map(Fence::counters).transpose()?.unwrap_or_default();
        let Ok(now) = boot_now() else {
            return Ok(Ok(()));
        };
        Ok(self
            .write_lease(lease.is_held(now), lease.lapses(now))
            .and_then(|()| {
                let packets = counters
                    .iter()
                    .map(|counter| (vec![("outcome", counter.outcome.label())], counter.packets));
                let help = "Packets from guarded addresses, and all others, by what became of them";
                self.counters("fence_packets", help, packets)
            }))
    }

    fn write_lease(&mut self, held: bool, lapses: u64) -> fmt::Result {
        let held = [(vec![], f64::from(u8::from(held)))];
        self.gauges(
            "lease_held",
            "Whether the node may use its egress IPs now",
            held,
        )?;
        let help = "How often the node's lease has ended before it was renewed";
        self.counters("lease_expiries", help, [(vec![], lapses)])
    }
}
