//! Putting the tunnel counters on devices.

use std::os::fd::AsFd;
use std::path::PathBuf;

use aya::maps::{Array, MapData};
use nix::libc;
use probe_ebpf::maps::TunnelConfig;
use probe_ebpf::tunnel::Direction;

use super::{Counted, NotCounted, TunnelHook};
use crate::interfaces::Interface;
use crate::kernel::cause::{self, is_before};
use crate::kernel::error::KernelError;
use crate::kernel::kernel_programs::classifier;
use crate::kernel::links::{self, LinkKind, link_layer};
use crate::kernel::maps::{self, TUNNEL_CONFIG};
use crate::kernel::sys::{self, Hook};
use crate::kernel::value::Value;
use crate::kernel::{Kernel, TcSetting, clsact};
use crate::logging::in_words;

impl Kernel {
    /// Counts tunnels as `config` says on each of these devices, and on no others. On the one of them
    /// that `native` names the reflector runs in native XDP, and counts what is received.
    ///
    /// What fails on one device does not hold up the others.
    pub fn count_tunnels(
        &mut self,
        devices: &[Interface],
        native: Option<u32>,
        config: TunnelConfig,
        setting: TcSetting,
    ) -> Result<Vec<Result<Counted, NotCounted>>, KernelError> {
        let indexes: Vec<u32> = devices.iter().map(|device| device.index).collect();
        self.stop_counting(|kind, index| {
            // Nothing is counted twice, not even for a moment.
            let in_xdp = kind.counts() == Some(Direction::Received) && native == Some(index);
            !indexes.contains(&index) || in_xdp
        })?;
        self.configure_tunnels(TunnelConfig {
            xdp_interface: native.filter(|it| indexes.contains(it)).unwrap_or(0),
            ..config
        })?;
        let count = |device| {
            self.count_device(device, native == Some(device.index), setting)
                .map_err(|error| NotCounted {
                    device: device.name.clone(),
                    reason: in_words(&error),
                })
        };
        Ok(devices.iter().map(count).collect())
    }

    /// Counts tunnels nowhere any more.
    pub fn count_no_tunnels(&mut self) -> Result<(), KernelError> {
        self.stop_counting(|_, _| true)?;
        self.configure_tunnels(TunnelConfig::new([]))
    }

    /// Sets what is counted where the programs are.
    pub fn configure_tunnels(&self, config: TunnelConfig) -> Result<(), KernelError> {
        let mut map: Array<MapData, Value<TunnelConfig>> =
            maps::open(self.layout.directory(), TUNNEL_CONFIG)?;
        if maps::get(&map, TUNNEL_CONFIG, 0)? == config {
            return Ok(());
        }
        maps::set(&mut map, TUNNEL_CONFIG, 0, config)
    }

    /// Removes the counters, by kind and device, that `surplus` names, and those of devices that are
    /// gone.
    fn stop_counting(&self, surplus: impl Fn(LinkKind, u32) -> bool) -> Result<(), KernelError> {
        for link in links::remove_dead(self.layout.directory())? {
            let index = link.interface_index;
            if link.kind.counts().is_some() && index.is_some_and(|index| surplus(link.kind, index))
            {
                links::remove(&link.path)?;
            }
        }
        for pin in clsact::scan(self.layout.directory())? {
            if pin.kind.counts().is_some() && surplus(pin.kind, pin.interface_index) {
                clsact::remove(&pin)?;
            }
        }
        Ok(())
    }

    fn count_device(
        &mut self,
        device: &Interface,
        native: bool,
        setting: TcSetting,
    ) -> Result<Counted, KernelError> {
        let layer = link_layer(device).ok_or_else(|| KernelError::UnknownHeader {
            interface: device.name.clone(),
            link_type: device.link_type,
        })?;
        let mut hook = |direction| {
            let kind = LinkKind::tunnel(layer, direction);
            match setting {
                TcSetting::Clsact => self.count_clsact(device, kind),
                TcSetting::Tcx => self.count_tcx(device, kind),
                TcSetting::Auto => match self.count_tcx(device, kind) {
                    Err(KernelError::TooOld { .. }) => self.count_clsact(device, kind),
                    result => result,
                },
            }
        };
        Ok(Counted {
            device: device.name.clone(),
            interface_index: device.index,
            received: if native {
                TunnelHook::Native
            } else {
                hook(Direction::Received)?
            },
            sent: hook(Direction::Sent)?,
        })
    }

    fn count_tcx(&mut self, device: &Interface, kind: LinkKind) -> Result<TunnelHook, KernelError> {
        let pin = kind.pin(self.layout.directory(), device.index);
        if !pin.exists() {
            self.remove_filters(device, kind)?;
            self.attach_counter(device, kind, pin)?;
        }
        Ok(TunnelHook::Tcx)
    }

    fn attach_counter(
        &mut self,
        device: &Interface,
        kind: LinkKind,
        pin: PathBuf,
    ) -> Result<(), KernelError> {
        let hook = self.hook(device, kind)?;
        let program = classifier(&mut self.programs, kind.program())?
            .fd()
            .map_err(|source| KernelError::Program {
                action: "attach",
                program: kind.program(),
                source,
            })?;
        let attached = sys::attach(program.as_fd(), device.index, hook, &pin);
        attached.map_err(|source| match source.raw_os_error() {
            Some(libc::ENODEV) => KernelError::NoInterface {
                interface: device.name.clone(),
            },
            // https://git.kernel.org/torvalds/c/e420bed02507
            Some(code) if is_before(6, 6) => cause::too_old("TCX", 6, 6, code),
            _ => KernelError::file("attach the tunnel counter and pin it at", pin)(source),
        })
    }

    /// First, since others may end the chain; but what is sent is counted behind the fence.
    fn hook(&self, device: &Interface, kind: LinkKind) -> Result<Hook, KernelError> {
        if kind.counts() == Some(Direction::Received) {
            return Ok(Hook::TCX_INGRESS);
        }
        let fence = links::scan(self.layout.directory())?
            .into_iter()
            .find(|link| link.kind.is_fence() && link.interface_index == Some(device.index));
        Ok(fence.map_or(Hook::TCX_EGRESS, |fence| Hook::tcx_egress_behind(fence.id)))
    }

    fn count_clsact(
        &mut self,
        device: &Interface,
        kind: LinkKind,
    ) -> Result<TunnelHook, KernelError> {
        let link = kind.pin(self.layout.directory(), device.index);
        if link.exists() {
            links::remove(&link)?;
        }
        let pin = clsact::Pin::new(self.layout.directory(), device.index, kind);
        clsact::install(&mut self.programs, &pin, &device.name)?;
        Ok(TunnelHook::Clsact)
    }

    fn remove_filters(&self, device: &Interface, kind: LinkKind) -> Result<(), KernelError> {
        for pin in clsact::scan(self.layout.directory())? {
            if pin.kind == kind && pin.interface_index == device.index {
                clsact::remove(&pin)?;
            }
        }
        Ok(())
    }
}
