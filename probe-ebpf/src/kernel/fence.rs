//! The fence, for TCX egress and for clsact filters in direct-action mode.

use aya_ebpf::bindings::tcx_action_base;
use aya_ebpf::macros::classifier;
use aya_ebpf::programs::TcContext;
use aya_log_ebpf::debug;
use probe_ebpf::fence::{Claims, LinkLayer, judge};

use super::frame;
use super::guards::{KernelGuards, count};

/// How much of a packet is made readable where its headers are not.
const HEADERS: u32 = 512;

/// On devices with Ethernet headers.
#[classifier]
pub(crate) fn fence(context: TcContext) -> i32 {
    settle(&context, LinkLayer::Ethernet)
}

/// On devices whose packets begin with the network header.
#[classifier]
pub(crate) fn fence_ip(context: TcContext) -> i32 {
    settle(&context, LinkLayer::None)
}

#[inline(always)]
fn settle(context: &TcContext, link: LinkLayer) -> i32 {
    let outcome = judge(&read(context, link), &KernelGuards);
    count(outcome);
    if outcome.is_fenced() {
        debug!(context, "fenced: {}", outcome.label());
        return tcx_action_base::TCX_DROP;
    }
    // Also what a clsact filter returns to leave the decision to those behind it (TC_ACT_UNSPEC).
    tcx_action_base::TCX_NEXT
}

/// A packet's claims. Headers that lie outside its linear part are pulled into it only when they
/// turn out to be missing: it can mean a copy of the packet.
#[inline(always)]
fn read(context: &TcContext, link: LinkLayer) -> Claims {
    let claims = Claims::read(&frame(context), link);
    if !claims.truncated || context.data_end() - context.data() >= context.len() as usize {
        return claims;
    }
    match context.pull_data(context.len().min(HEADERS)) {
        Ok(()) => Claims::read(&frame(context), link),
        Err(_) => claims,
    }
}
