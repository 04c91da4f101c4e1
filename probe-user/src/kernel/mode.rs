//! How the reflector may be attached to an interface, and why that way.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::interfaces::Interface;

/// What the setting `reflector.attach` asks for.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum AttachSetting {
    /// The best that the interface offers.
    #[default]
    Auto,
    /// Native XDP or nothing.
    Native,
    /// Generic XDP or nothing.
    Generic,
    /// TCX ingress or nothing.
    Tcx,
}

/// What the settings `egress.fence` and `tunnels.hook` ask for.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum TcSetting {
    /// TCX, or a clsact filter where the kernel does not have TCX.
    #[default]
    Auto,
    /// TCX or nothing.
    Tcx,
    /// A clsact filter or nothing.
    Clsact,
}

/// How a program is attached.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq, Hash)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// XDP in the driver.
    Native,
    /// XDP in the network stack.
    Generic,
    /// TCX ingress.
    Tcx,
}

impl Mode {
    /// Name in metrics and settings.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Generic => "generic",
            Self::Tcx => "tcx",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Native => "native XDP",
            Self::Generic => "generic XDP",
            Self::Tcx => "TCX ingress",
        })
    }
}

/// A mode worth trying, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The mode.
    pub mode: Mode,
    /// Why this one, in words.
    pub reason: String,
}

impl Choice {
    fn new(mode: Mode, reason: impl Into<String>) -> Self {
        Self {
            mode,
            reason: reason.into(),
        }
    }
}

/// The modes to try on an interface, best first.
pub fn choices(setting: AttachSetting, interface: &Interface) -> Vec<Choice> {
    let forced = |mode: Mode| {
        vec![Choice::new(
            mode,
            format!("reflector.attach={}", mode.label()),
        )]
    };
    match setting {
        AttachSetting::Native if interface.loopback => vec![Choice::new(
            Mode::Generic,
            "reflector.attach=native, and the loopback interface has no native XDP",
        )],
        AttachSetting::Native => forced(Mode::Native),
        AttachSetting::Generic => forced(Mode::Generic),
        AttachSetting::Tcx => forced(Mode::Tcx),
        AttachSetting::Auto if interface.loopback => vec![
            // Generic XDP would make every large packet between local processes linear.
            Choice::new(
                Mode::Tcx,
                "auto: the loopback interface carries local bulk traffic",
            ),
            Choice::new(Mode::Generic, "auto: TCX is not to be had"),
        ],
        AttachSetting::Auto => automatic(interface),
    }
}

fn automatic(interface: &Interface) -> Vec<Choice> {
    let tcx = Choice::new(Mode::Tcx, "auto: XDP is not to be had");
    match &interface.bus_device {
        Some(device) => vec![
            Choice::new(Mode::Native, format!("auto: hardware ({device})")),
            Choice::new(
                Mode::Generic,
                format!("auto: the driver of {device} refuses native XDP"),
            ),
            tcx,
        ],
        None => {
            let kind = interface.kind.as_deref().unwrap_or("of no known kind");
            vec![
                Choice::new(Mode::Generic, format!("auto: virtual interface ({kind})")),
                tcx,
            ]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(kind: Option<&str>, device: Option<&str>, loopback: bool) -> Interface {
        Interface {
            kind: kind.map(str::to_owned),
            bus_device: device.map(str::to_owned),
            loopback,
            ..Interface::default()
        }
    }

    fn modes(setting: AttachSetting, interface: &Interface) -> Vec<Mode> {
        choices(setting, interface)
            .into_iter()
            .map(|choice| choice.mode)
            .collect()
    }

    #[test]
    fn auto_prefers_native_on_hardware_only() {
        let hardware = interface(None, Some("0000:00:03.0"), false);
        let veth = interface(Some("veth"), None, false);
        assert_eq!(
            modes(AttachSetting::Auto, &hardware),
            [Mode::Native, Mode::Generic, Mode::Tcx]
        );
        assert_eq!(
            modes(AttachSetting::Auto, &veth),
            [Mode::Generic, Mode::Tcx]
        );
    }

    #[test]
    fn auto_spares_the_loopback_interface_generic_xdp() {
        let lo = interface(None, None, true);
        assert_eq!(modes(AttachSetting::Auto, &lo), [Mode::Tcx, Mode::Generic]);
    }

    #[test]
    fn a_forced_mode_is_the_only_one_tried() {
        let hardware = interface(None, Some("0000:00:03.0"), false);
        assert_eq!(modes(AttachSetting::Native, &hardware), [Mode::Native]);
        assert_eq!(modes(AttachSetting::Generic, &hardware), [Mode::Generic]);
        assert_eq!(modes(AttachSetting::Tcx, &hardware), [Mode::Tcx]);
    }

    #[test]
    fn the_loopback_interface_takes_generic_where_native_is_forced() {
        let lo = interface(None, None, true);
        assert_eq!(modes(AttachSetting::Native, &lo), [Mode::Generic]);
    }
}
