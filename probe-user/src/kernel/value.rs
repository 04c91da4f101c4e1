//! The bridge between the maps' value types and aya.

#![expect(
    unsafe_code,
    reason = "the type of a map's value is a promise to the kernel"
)]

use aya::Pod;
use probe_ebpf::maps::MapValue;

/// A map value in the shape that aya asks for. A wrapper, since neither the trait nor the types
/// are this crate's.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Value<T>(pub(super) T);

// SAFETY: a `MapValue` is `repr(C)` without hidden padding, and may be copied byte by byte to and
// from a map; the wrapper is transparent.
unsafe impl<T: MapValue> Pod for Value<T> {}

impl<T: MapValue> Value<T> {
    /// The value that the kernel has put into these bytes.
    ///
    /// # Panics
    /// They are not as many as the value has.
    pub(super) fn read(bytes: &[u8]) -> T {
        assert_eq!(bytes.len(), size_of::<T>());
        // SAFETY: the bytes are as many as the type has, and as the kernel or the agent wrote them,
        // both of whom write only values of it.
        unsafe { bytes.as_ptr().cast::<T>().read_unaligned() }
    }
}
