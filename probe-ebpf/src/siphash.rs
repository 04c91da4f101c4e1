//! SipHash-2-4 (Aumasson and Bernstein, 2012) with a 64-bit tag.
//!
//! Probes are hashed word by word, which is what a kernel program can afford; node names are hashed
//! as bytes, in user space only.

/// A 128-bit SipHash key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SipKey {
    k0: u64,
    k1: u64,
}

impl SipKey {
    /// Reads a key from its 16 bytes, as the SipHash paper orders them.
    #[inline(always)]
    pub const fn from_bytes(bytes: &[u8; 16]) -> Self {
        let whole = u128::from_le_bytes(*bytes);
        Self {
            k0: whole as u64,
            k1: (whole >> 64) as u64,
        }
    }
}

/// [`State::round`] in the kernel's instructions.
#[cfg(target_arch = "bpf")]
macro_rules! round {
    () => {
        "
        {v0} += {v1}
        {v2} += {v3}

        {rotated} = {v1}
        {rotated} >>= 64 - 13
        {v1} <<= 13
        {v1} |= {rotated}
        {v1} ^= {v0}

        {rotated} = {v3}
        {rotated} >>= 64 - 16
        {v3} <<= 16
        {v3} |= {rotated}
        {v3} ^= {v2}

        {rotated} = {v0}
        {rotated} >>= 64 - 32
        {v0} <<= 32
        {v0} |= {rotated}

        {v2} += {v1}
        {v0} += {v3}

        {rotated} = {v1}
        {rotated} >>= 64 - 17
        {v1} <<= 17
        {v1} |= {rotated}
        {v1} ^= {v2}

        {rotated} = {v3}
        {rotated} >>= 64 - 21
        {v3} <<= 21
        {v3} |= {rotated}
        {v3} ^= {v0}

        {rotated} = {v2}
        {rotated} >>= 64 - 32
        {v2} <<= 32
        {v2} |= {rotated}
        "
    };
}

/// A hash in the making.
pub(crate) struct State {
    v0: u64,
    v1: u64,
    v2: u64,
    v3: u64,
}

impl State {
    #[inline(always)]
    pub(crate) const fn new(key: &SipKey) -> Self {
        Self {
            v0: key.k0 ^ 0x736f_6d65_7073_6575,
            v1: key.k1 ^ 0x646f_7261_6e64_6f6d,
            v2: key.k0 ^ 0x6c79_6765_6e65_7261,
            v3: key.k1 ^ 0x7465_6462_7974_6573,
        }
    }

    #[inline(always)]
    fn round(&mut self) {
        self.v0 = self.v0.wrapping_add(self.v1);
        self.v2 = self.v2.wrapping_add(self.v3);
        self.v1 = self.v1.rotate_left(13) ^ self.v0;
        self.v3 = self.v3.rotate_left(16) ^ self.v2;
        self.v0 = self.v0.rotate_left(32);
        self.v2 = self.v2.wrapping_add(self.v1);
        self.v0 = self.v0.wrapping_add(self.v3);
        self.v1 = self.v1.rotate_left(17) ^ self.v2;
        self.v3 = self.v3.rotate_left(21) ^ self.v0;
        self.v2 = self.v2.rotate_left(32);
    }

    /// Takes in eight message bytes, the first in the low byte.
    #[cfg(not(target_arch = "bpf"))]
    #[inline(always)]
    pub(crate) fn absorb(&mut self, word: u64) {
        self.v3 ^= word;
        self.round();
        self.round();
        self.v0 ^= word;
    }

    /// Takes in eight message bytes, the first in the low byte.
    ///
    /// This is most of what an answer costs. It is written out because the instruction set has no
    /// rotation, and because LLVM would bring two hashes that are computed side by side into an
    /// order of its own, in which one waits for the other.
    #[cfg(target_arch = "bpf")]
    #[inline(always)]
    pub(crate) fn absorb(&mut self, word: u64) {
        // SAFETY: touches the registers that it names, and nothing else.
        unsafe {
            core::arch::asm!(
                "{v3} ^= {word}",
                round!(),
                round!(),
                "{v0} ^= {word}",
                word = in(reg) word,
                v0 = inout(reg) self.v0,
                v1 = inout(reg) self.v1,
                v2 = inout(reg) self.v2,
                v3 = inout(reg) self.v3,
                rotated = out(reg) _,
                options(nomem, nostack),
            );
        }
    }

    /// The tag, after a message of `length` bytes that was absorbed in whole words.
    #[inline(always)]
    pub(crate) fn finish(self, length: usize) -> u64 {
        self.finish_with(0, length)
    }

    #[inline(always)]
    fn finish_with(mut self, rest: u64, length: usize) -> u64 {
        self.absorb(rest | ((length as u64 & 0xff) << 56));
        self.v2 ^= 0xff;
        self.round();
        self.round();
        self.round();
        self.round();
        self.v0 ^ self.v1 ^ self.v2 ^ self.v3
    }
}

/// The tag over a message of any length.
pub fn hash_bytes(key: &SipKey, message: &[u8]) -> u64 {
    let mut state = State::new(key);
    let mut word = 0;
    let mut index = 0;
    while index < message.len() {
        word |= (message[index] as u64) << (8 * (index % 8));
        if index % 8 == 7 {
            state.absorb(word);
            word = 0;
        }
        index += 1;
    }
    state.finish_with(word, message.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::hash::Hasher;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn reference(key: &[u8; 16], message: &[u8]) -> u64 {
        let mut hasher = siphasher::sip::SipHasher24::new_with_key(key);
        hasher.write(message);
        hasher.finish()
    }

    #[test]
    fn the_papers_test_vector_comes_out() {
        let key: [u8; 16] = core::array::from_fn(|i| i as u8);
        let message: [u8; 15] = core::array::from_fn(|i| i as u8);
        assert_eq!(
            hash_bytes(&SipKey::from_bytes(&key), &message),
            0xa129_ca61_49be_45e5
        );
    }

    proptest! {
        #[test]
        fn bytes_agree_with_the_siphasher_crate(key: [u8; 16], message: Vec<u8>) {
            prop_assert_eq!(
                hash_bytes(&SipKey::from_bytes(&key), &message),
                reference(&key, &message)
            );
        }

        #[test]
        fn whole_words_agree_with_bytes(key: [u8; 16], words: Vec<u64>) {
            let mut state = State::new(&SipKey::from_bytes(&key));
            words.iter().for_each(|word| state.absorb(*word));
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            prop_assert_eq!(state.finish(bytes.len()), reference(&key, &bytes));
        }
    }
}
