//! Kernel programs for benchmarks and tests only: traffic to measure the reflector with, and
//! programs to measure it against. On any other target this is a stub.

#![cfg_attr(target_arch = "bpf", no_std, no_main)]

#[cfg(target_arch = "bpf")]
#[path = "kernel/maps.rs"]
mod maps;

#[cfg(target_arch = "bpf")]
mod programs {
    use aya_ebpf::bindings::{TC_ACT_OK, xdp_action};
    use aya_ebpf::btf_maps::{Array, PerCpuArray};
    use aya_ebpf::macros::{btf_map, classifier, xdp};
    use aya_ebpf::programs::{TcContext, XdpContext};
    use probe_ebpf::frame::{Frame, Truncated};
    use probe_ebpf::outcome::Verdict;
    use probe_ebpf::reflect::{Node, reflect};
    use probe_ebpf::wire::ntp::NtpTime;
    use probe_ebpf::wire::probe::{Answer, ProbePacket};

    use crate::maps::{self, KernelNode};

    /// Words of a frame that [`restore`] writes: Ethernet, IPv4, UDP and a probe, 146 bytes, and
    /// padding up to a whole word.
    const TEMPLATE_WORDS: usize = 19;
    /// Where the template's UDP payload begins.
    const PAYLOAD: usize = 14 + 20 + 8;

    const ANSWER: Answer = Answer {
        received: NtpTime(0),
        sent: NtpTime(0),
        error_estimate: 0,
        ttl: 0,
        flags: 0,
        lease_ms: 0,
        epoch: 0,
        incarnation: 0,
        node_time: 0,
        beat_age_ms: 0,
        tunnel_age_ms: 0,
    };

    #[btf_map]
    static TEMPLATE: Array<[u64; TEMPLATE_WORDS], 1> = Array::new();
    #[btf_map]
    static SUNK: PerCpuArray<u64, 1> = PerCpuArray::new();

    #[panic_handler]
    fn panic(_: &core::panic::PanicInfo) -> ! {
        loop {}
    }

    #[inline(always)]
    fn frame(context: &XdpContext) -> Frame<'_> {
        // SAFETY: the kernel lends the packet to the program until it returns.
        unsafe { Frame::from_raw(context.data() as *mut u8, context.data_end() as *mut u8) }
    }

    /// Makes the frame the template again: BPF_PROG_TEST_RUN gives a program the bytes that its
    /// last run has left.
    #[inline(always)]
    fn restore(frame: &mut Frame) -> Result<(), Truncated> {
        let template = TEMPLATE.get(0).ok_or(Truncated)?;
        for (index, word) in template.iter().enumerate() {
            frame.write(index * 8, *word)?;
        }
        Ok(())
    }

    /// Lets everything pass: what a veth's peer needs for native XDP_TX.
    #[xdp(frags)]
    pub(crate) fn pass(_context: XdpContext) -> u32 {
        xdp_action::XDP_PASS
    }

    /// Ends a tc chain: nothing behind it sees the packet. Also what a tc program costs by itself.
    #[classifier]
    pub(crate) fn accept(_context: TcContext) -> i32 {
        TC_ACT_OK as i32
    }

    /// Sends every frame back as it is.
    #[xdp]
    pub(crate) fn bare_tx(_context: XdpContext) -> u32 {
        xdp_action::XDP_TX
    }

    /// Sends the template.
    #[xdp]
    pub(crate) fn restore_tx(context: XdpContext) -> u32 {
        match restore(&mut frame(&context)) {
            Ok(()) => xdp_action::XDP_TX,
            Err(Truncated) => xdp_action::XDP_ABORTED,
        }
    }

    /// Sends the template after two MACs over it: what the wire format costs, whoever answers.
    #[xdp]
    pub(crate) fn restore_macs(context: XdpContext) -> u32 {
        let mut frame = frame(&context);
        let (Ok(()), Some(key)) = (restore(&mut frame), KernelNode.key(0)) else {
            return xdp_action::XDP_ABORTED;
        };
        let (Ok(packet), Some(key)) = (
            frame.view::<ProbePacket>(PAYLOAD),
            key.id().and_then(|id| key.with_id(id)),
        ) else {
            return xdp_action::XDP_ABORTED;
        };
        let Some(reply) = packet.answered(&ANSWER, &key) else {
            return xdp_action::XDP_DROP;
        };
        *packet = reply;
        xdp_action::XDP_TX
    }

    /// Answers the template.
    #[xdp]
    pub(crate) fn restore_reflect(context: XdpContext) -> u32 {
        let mut frame = frame(&context);
        if restore(&mut frame).is_err() {
            return xdp_action::XDP_ABORTED;
        }
        let outcome = reflect(&mut frame, &KernelNode);
        maps::count(outcome);
        match outcome.verdict() {
            Verdict::Pass => xdp_action::XDP_PASS,
            Verdict::Drop => xdp_action::XDP_DROP,
            Verdict::Reply => xdp_action::XDP_TX,
        }
    }

    /// Counts and drops everything.
    #[xdp]
    pub(crate) fn sink(_context: XdpContext) -> u32 {
        if let Some(sunk) = SUNK.get_ptr_mut(0) {
            // SAFETY: this CPU's own entry.
            unsafe { *sunk += 1 };
        }
        xdp_action::XDP_DROP
    }

    #[unsafe(link_section = "license")]
    #[unsafe(no_mangle)]
    static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
}

#[cfg(not(target_arch = "bpf"))]
fn main() {
    eprintln!("these are kernel programs: build them with `cargo xtask build`");
    std::process::exit(1);
}
