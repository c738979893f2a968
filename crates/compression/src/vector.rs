//! Loops with the vector instructions of this processor.

/// A function that calls another one, which is inlined, compiled for AVX2 where the processor has that.
macro_rules! vectorised {
    ($(#[$doc:meta])* fn $name:ident($($argument:ident: $type:ty),+) -> $result:ty = $inlined:ident) => {
        $(#[$doc])*
        fn $name<V: Value>($($argument: $type),+) -> $result {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2")]
                fn with_avx2<V: Value>($($argument: $type),+) -> $result {
                    $inlined::<V>($($argument),+)
                }
                if std::arch::is_x86_feature_detected!("avx2") {
                    // SAFETY: the processor has AVX2.
                    return unsafe { with_avx2::<V>($($argument),+) };
                }
            }
            $inlined::<V>($($argument),+)
        }
    };
}

pub(crate) use vectorised;
