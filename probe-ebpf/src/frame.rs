//! The one way to touch packet memory. Every access is checked against the packet's end, in the
//! form that the kernel's verifier follows.

use core::marker::PhantomData;

/// A type that any bytes are a value of.
///
/// # Safety
///
/// Each bit pattern of the type's size is a valid value, and the type has no padding.
pub unsafe trait Plain: Copy {}

// SAFETY: integers.
unsafe impl Plain for u8 {}
// SAFETY: as above.
unsafe impl Plain for u16 {}
// SAFETY: as above.
unsafe impl Plain for u32 {}
// SAFETY: as above.
unsafe impl Plain for u64 {}
// SAFETY: as above.
unsafe impl<const N: usize> Plain for [u64; N] {}

/// The access would reach beyond the packet's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truncated;

/// A packet in memory, from its Ethernet header on.
pub struct Frame<'a> {
    start: *mut u8,
    end: *mut u8,
    packet: PhantomData<&'a mut [u8]>,
}

impl<'a> Frame<'a> {
    /// A frame over bytes that are the caller's alone.
    pub fn new(bytes: &'a mut [u8]) -> Self {
        let range = bytes.as_mut_ptr_range();
        Self {
            start: range.start,
            end: range.end,
            packet: PhantomData,
        }
    }

    /// A frame over a packet that the kernel lends.
    ///
    /// # Safety
    ///
    /// `start..end` is readable and writable, and nobody else touches it, for as long as the frame
    /// lives.
    #[inline(always)]
    pub const unsafe fn from_raw(start: *mut u8, end: *mut u8) -> Self {
        Self {
            start,
            end,
            packet: PhantomData,
        }
    }

    /// The rest of the packet from `offset` on, which is known only at run time. The compiler is kept
    /// from computing its start more than once: the verifier would take the results for different
    /// pointers, and believe a check of one no more when another is used.
    #[inline(always)]
    pub fn behind(&self, offset: usize) -> Frame<'_> {
        Frame {
            start: core::hint::black_box(self.start.wrapping_add(offset)),
            end: self.end,
            packet: PhantomData,
        }
    }

    /// Whether the packet has a byte at every offset below `length`.
    #[inline(always)]
    pub fn reaches(&self, length: usize) -> bool {
        self.start as usize + length <= self.end as usize
    }

    #[inline(always)]
    fn at<T: Plain>(&self, offset: usize) -> Result<*mut T, Truncated> {
        let pointer = self.start.wrapping_add(offset);
        if pointer.wrapping_add(size_of::<T>()) > self.end {
            return Err(Truncated);
        }
        Ok(pointer.cast())
    }

    /// The value at `offset`, in the packet's byte order.
    #[inline(always)]
    pub fn read<T: Plain>(&self, offset: usize) -> Result<T, Truncated> {
        let pointer = self.at::<T>(offset)?;
        // SAFETY: `at` has checked that the whole value lies inside the packet, and any bytes are
        // a value of a `Plain` type.
        Ok(unsafe { pointer.read_unaligned() })
    }

    /// Replaces the value at `offset`.
    #[inline(always)]
    pub fn write<T: Plain>(&mut self, offset: usize, value: T) -> Result<(), Truncated> {
        let pointer = self.at::<T>(offset)?;
        // SAFETY: `at` has checked that the whole value lies inside the packet, which is ours
        // alone.
        unsafe { pointer.write_unaligned(value) };
        Ok(())
    }

    /// The value at `offset`, in place.
    #[inline(always)]
    pub fn view<T: Plain>(&mut self, offset: usize) -> Result<&mut T, Truncated> {
        const { assert!(align_of::<T>() == 1) };
        let pointer = self.at::<T>(offset)?;
        // SAFETY: `at` has checked that the whole value lies inside the packet, which is ours
        // alone and borrowed for as long as the reference lives; any bytes are a value of a
        // `Plain` type, and its alignment is 1.
        Ok(unsafe { &mut *pointer })
    }
}
