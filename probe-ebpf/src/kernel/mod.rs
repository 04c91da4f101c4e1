//! Entry points of the kernel programs, and the maps they share.
//!
//! An entry point turns an outcome into its verdict and counts it; the decision itself is
//! [`probe_ebpf::reflect`] or [`probe_ebpf::fence`], the same for all. Tunnels are only counted
//! ([`probe_ebpf::tunnel`]).

mod fence;
mod guards;
mod maps;
mod tunnel;

use aya_ebpf::EbpfContext;
use aya_ebpf::bindings::{tcx_action_base, xdp_action, xdp_md};
use aya_ebpf::helpers::bpf_redirect;
use aya_ebpf::macros::{classifier, xdp};
use aya_ebpf::programs::{TcContext, XdpContext};
use aya_log_ebpf::{debug, trace};
use probe_ebpf::frame::Frame;
use probe_ebpf::outcome::{Outcome, Verdict};
use probe_ebpf::reflect::{is_for_reflector, reflect};

use maps::KernelNode;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    loop {}
}

/// The reflector for XDP, native or generic. Where it is native it counts tunnels, too.
#[xdp(frags)]
pub(crate) fn reflect_xdp(context: XdpContext) -> u32 {
    let verdict = answer(context.ctx);
    if verdict == xdp_action::XDP_PASS {
        tunnel::count_xdp(&context);
    }
    verdict
}

/// The reflector's part of [`reflect_xdp`]. A function by itself, so that both parts have the whole of
/// a program's stack.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn answer(context: *mut xdp_md) -> u32 {
    let context = XdpContext::new(context);
    // SAFETY: the kernel lends the packet to the program until it returns.
    let mut frame =
        unsafe { Frame::from_raw(context.data() as *mut u8, context.data_end() as *mut u8) };
    match settle(&context, reflect(&mut frame, &KernelNode)) {
        Verdict::Pass => xdp_action::XDP_PASS,
        Verdict::Drop => xdp_action::XDP_DROP,
        Verdict::Reply => xdp_action::XDP_TX,
    }
}

/// The reflector for TCX ingress. The reply leaves through the interface on which the request
/// came.
#[classifier]
pub(crate) fn reflect_tcx(context: TcContext) -> i32 {
    // Some drivers leave a packet's later bytes outside its linear part.
    if context.data_end() - context.data() < context.len() as usize
        && is_for_reflector(&frame(&context), &KernelNode)
    {
        // If it fails, the packet is judged by the bytes that are there.
        let _ = context.pull_data(context.len());
    }
    let outcome = reflect(&mut frame(&context), &KernelNode);
    match settle(&context, outcome) {
        Verdict::Pass => tcx_action_base::TCX_NEXT,
        Verdict::Drop => tcx_action_base::TCX_DROP,
        // SAFETY: a helper without memory arguments.
        Verdict::Reply => unsafe { bpf_redirect((*context.skb.skb).ifindex, 0) as i32 },
    }
}

#[inline(always)]
fn frame(context: &TcContext) -> Frame<'_> {
    // SAFETY: the kernel lends the packet to the program until it returns; a helper that could
    // move it is only called when no frame is alive.
    unsafe { Frame::from_raw(context.data() as *mut u8, context.data_end() as *mut u8) }
}

/// Counts a packet under its outcome, and logs what became of it. Below the level that the agent
/// loads the program with, the verifier removes the log calls.
#[inline(always)]
fn settle(context: &impl EbpfContext, outcome: Outcome) -> Verdict {
    maps::count(outcome);
    let verdict = outcome.verdict();
    match verdict {
        Verdict::Pass => {}
        Verdict::Drop => debug!(context, "dropped: {}", outcome.label()),
        Verdict::Reply => trace!(context, "answered: {}", outcome.label()),
    }
    verdict
}

#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
