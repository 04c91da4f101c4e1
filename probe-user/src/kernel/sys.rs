//! The calls of bpf(2) that aya does not offer, or not in the way it takes here: links and chains.

#![expect(unsafe_code, reason = "raw system calls")]

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use nix::libc;

const BPF_OBJ_PIN: libc::c_long = 6;
const BPF_OBJ_GET: libc::c_long = 7;
const BPF_OBJ_GET_INFO_BY_FD: libc::c_long = 15;
const BPF_PROG_QUERY: libc::c_long = 16;
const BPF_LINK_CREATE: libc::c_long = 28;
const BPF_LINK_DETACH: libc::c_long = 34;

/// BPF_LINK_TYPE_XDP and BPF_LINK_TYPE_TCX of `enum bpf_link_type`.
pub(super) const LINK_TYPE_XDP: u32 = 6;
pub(super) const LINK_TYPE_TCX: u32 = 11;

/// What the kernel says of a link: the head of `struct bpf_link_info`, as it is for XDP and TCX.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct LinkInfo {
    pub(super) link_type: u32,
    pub(super) id: u32,
    pub(super) program_id: u32,
    pad: u32,
    /// 0 once the interface is gone.
    pub(super) interface_index: u32,
}

/// Of `enum bpf_attach_type`.
const BPF_XDP: u32 = 37;
const BPF_TCX_INGRESS: u32 = 46;
const BPF_TCX_EGRESS: u32 = 47;

/// Where a link is to be made: `enum bpf_attach_type`, and flags that depend on it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hook {
    attach_type: u32,
    flags: u32,
    /// Id of the link that it comes behind, if `flags` say so.
    relative: u32,
}

impl Hook {
    /// XDP in the network stack (XDP_FLAGS_SKB_MODE).
    pub(super) const XDP_GENERIC: Self = Self {
        attach_type: BPF_XDP,
        flags: 1 << 1,
        relative: 0,
    };
    /// XDP in the driver (XDP_FLAGS_DRV_MODE).
    pub(super) const XDP_NATIVE: Self = Self {
        attach_type: BPF_XDP,
        flags: 1 << 2,
        relative: 0,
    };
    /// TCX ingress, before all others (BPF_F_BEFORE).
    pub(super) const TCX_INGRESS: Self = Self {
        attach_type: BPF_TCX_INGRESS,
        flags: 1 << 3,
        relative: 0,
    };
    /// TCX egress, before all others (BPF_F_BEFORE).
    pub(super) const TCX_EGRESS: Self = Self {
        attach_type: BPF_TCX_EGRESS,
        flags: 1 << 3,
        relative: 0,
    };

    /// TCX egress, right behind the link of this id (BPF_F_AFTER, BPF_F_ID, BPF_F_LINK).
    pub(super) const fn tcx_egress_behind(link_id: u32) -> Self {
        Self {
            attach_type: BPF_TCX_EGRESS,
            flags: 1 << 4 | 1 << 5 | 1 << 13,
            relative: link_id,
        }
    }
}

#[derive(Default)]
#[repr(C)]
struct LinkCreate {
    program: u32,
    interface_index: u32,
    attach_type: u32,
    flags: u32,
    relative: u32,
    pad: u32,
    expected_revision: u64,
}

#[derive(Default)]
#[repr(C)]
struct Object {
    path: u64,
    descriptor: u32,
    flags: u32,
}

#[derive(Default)]
#[repr(C)]
struct InfoByDescriptor {
    descriptor: u32,
    length: u32,
    info: u64,
}

#[derive(Default)]
#[repr(C)]
struct LinkDetach {
    descriptor: u32,
}

/// Attaches a program to an interface and pins the link.
///
/// aya would do, save that its XDP falls back to netlink where the kernel refuses a link with
/// EINVAL; such an attachment cannot be pinned, and turning it into a link leaves it behind.
pub(super) fn attach(
    program: BorrowedFd<'_>,
    interface_index: u32,
    hook: Hook,
    pin: &Path,
) -> io::Result<()> {
    let mut create = LinkCreate {
        program: program.as_raw_fd() as u32,
        interface_index,
        attach_type: hook.attach_type,
        flags: hook.flags,
        relative: hook.relative,
        ..LinkCreate::default()
    };
    // SAFETY: `create` is the layout of bpf_attr for this command.
    let descriptor = unsafe { bpf(BPF_LINK_CREATE, &mut create) }?;
    // SAFETY: the kernel has just handed out this descriptor; nobody else knows it.
    let link = unsafe { OwnedFd::from_raw_fd(descriptor as i32) };

    let path = CString::new(pin.as_os_str().as_bytes())?;
    let mut object = Object {
        path: path.as_ptr() as u64,
        descriptor: link.as_raw_fd() as u32,
        ..Object::default()
    };
    // SAFETY: `object` is the layout of bpf_attr for this command, and points to a string that
    // lives through the call.
    unsafe { bpf(BPF_OBJ_PIN, &mut object) }?;
    Ok(())
}

/// Opens a pin and asks what link it holds.
pub(super) fn link_info(pin: &Path) -> io::Result<LinkInfo> {
    let link = open_pin(pin)?;
    let mut info = LinkInfo::default();
    let mut ask = InfoByDescriptor {
        descriptor: link.as_raw_fd() as u32,
        length: size_of::<LinkInfo>() as u32,
        info: &raw mut info as u64,
    };
    // SAFETY: `ask` is the layout of bpf_attr for this command, and points to `length` writable
    // bytes.
    unsafe { bpf(BPF_OBJ_GET_INFO_BY_FD, &mut ask) }?;
    Ok(info)
}

/// Detaches the link that a pin holds, at once: removing the pin alone takes effect only when the
/// kernel gets round to it. A link whose interface is gone is detached already.
pub(super) fn detach_link(pin: &Path) -> io::Result<()> {
    let link = open_pin(pin)?;
    let mut detach = LinkDetach {
        descriptor: link.as_raw_fd() as u32,
    };
    // SAFETY: `detach` is the layout of bpf_attr for this command.
    match unsafe { bpf(BPF_LINK_DETACH, &mut detach) } {
        Err(error) if error.raw_os_error() != Some(libc::ENOLINK) => Err(error),
        _ => Ok(()),
    }
}

/// Programs in one TCX chain at most (BPF_MPROG_MAX).
const CHAIN: usize = 64;

#[derive(Default)]
#[repr(C)]
struct ProgramQuery {
    interface_index: u32,
    attach_type: u32,
    query_flags: u32,
    attach_flags: u32,
    program_ids: u64,
    count: u32,
    pad: u32,
    program_attach_flags: u64,
    link_ids: u64,
    link_attach_flags: u64,
    revision: u64,
}

/// A program in a TCX chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InChain {
    pub(super) program_id: u32,
    /// 0 if it is attached without a link.
    pub(super) link_id: u32,
}

/// The programs on a device's TCX egress, in the order in which packets meet them.
pub(super) fn tcx_egress_chain(interface_index: u32) -> io::Result<Vec<InChain>> {
    let (mut program_ids, mut link_ids) = ([0_u32; CHAIN], [0_u32; CHAIN]);
    let mut query = ProgramQuery {
        interface_index,
        attach_type: BPF_TCX_EGRESS,
        program_ids: program_ids.as_mut_ptr() as u64,
        link_ids: link_ids.as_mut_ptr() as u64,
        count: CHAIN as u32,
        ..ProgramQuery::default()
    };
    // SAFETY: `query` is the layout of bpf_attr for this command, and points to two arrays of
    // `count` writable numbers.
    unsafe { bpf(BPF_PROG_QUERY, &mut query) }?;
    let chain = program_ids.into_iter().zip(link_ids);
    let chain = chain.take(query.count as usize);
    Ok(chain
        .map(|(program_id, link_id)| InChain {
            program_id,
            link_id,
        })
        .collect())
}

/// MEMBARRIER_CMD_GLOBAL of `linux/membarrier.h`.
const MEMBARRIER_GLOBAL: libc::c_int = 1;
/// Longer than any program of ours runs.
const PROGRAM_TIME: Duration = Duration::from_millis(100);

/// Waits until every program that runs now has ended. What a map said before, none has in hand
/// afterwards.
pub(super) fn wait_for_programs() {
    // SAFETY: a system call without pointers.
    let result = unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_GLOBAL, 0, 0) };
    // It waits for an RCU grace period, within which programs run. Kernels with nohz_full refuse.
    if result < 0 {
        std::thread::sleep(PROGRAM_TIME);
    }
}

fn open_pin(pin: &Path) -> io::Result<OwnedFd> {
    let path = CString::new(pin.as_os_str().as_bytes())?;
    let mut get = Object {
        path: path.as_ptr() as u64,
        ..Object::default()
    };
    // SAFETY: `get` is the layout of bpf_attr for this command, and points to a string that lives
    // through the call.
    let descriptor = unsafe { bpf(BPF_OBJ_GET, &mut get) }?;
    // SAFETY: the kernel has just handed out this descriptor; nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor as i32) })
}

/// # Safety
///
/// `attribute` is what `command` expects, and every pointer in it is valid.
pub(super) unsafe fn bpf<T>(command: libc::c_long, attribute: &mut T) -> io::Result<libc::c_long> {
    // SAFETY: the caller's promise.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            &raw mut *attribute,
            size_of::<T>() as libc::c_long,
        )
    };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}
