//! Counted latencies as HdrHistograms (<http://hdrhistogram.org>), the form in which they are
//! stored.
//!
//! ```text
//! LatencyCounts ── to_histogram ──▶ Histogram<u64> ── encode ──▶ base64 of the V2 + DEFLATE form
//! LatencyCounts ◀─────────────────────────────────── decode ────
//! ```
//!
//! Every HdrHistogram library reads that form. It has the counts and not the sum or the exact
//! maximum, which are stored beside it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};

use crate::latency::{LatencyCounts, MAX_NS, bucket_low_ns, bucket_of};

/// Significant decimal digits of an HdrHistogram with the buckets of [`crate::latency`].
const SIGNIFICANT_DIGITS: u8 = 2;

/// Why a histogram could not be encoded or decoded.
#[derive(Debug, thiserror::Error)]
pub enum CodecError {
    /// The HdrHistogram library refused to make or fill a histogram.
    #[error("can't make a histogram of up to {MAX_NS} ns: {0}")]
    Histogram(String),
    /// The library failed to serialise.
    #[error("can't serialise a histogram: {0}")]
    Encode(String),
    /// Not base64.
    #[error("histogram is not base64 ({0})")]
    Base64(#[from] base64::DecodeError),
    /// Base64, but not an HdrHistogram in the V2 form.
    #[error("histogram is not in HdrHistogram's V2 form ({0})")]
    Decode(String),
    /// A histogram with other buckets, so that counts can't be taken over exactly.
    #[error(
        "histogram has {digits} significant digits from {low} up, not {SIGNIFICANT_DIGITS} from 1"
    )]
    OtherBuckets {
        /// Its significant decimal digits.
        digits: u8,
        /// Its lowest discernible value.
        low: u64,
    },
}

/// As an HdrHistogram with the same buckets: every count is taken over exactly; sum and exact
/// maximum are not part of it.
///
/// # Errors
/// [`CodecError::Histogram`] if the library refuses, which it does only when a count exceeds its
/// counters.
pub fn to_histogram(counts: &LatencyCounts) -> Result<Histogram<u64>, CodecError> {
    let mut histogram = Histogram::<u64>::new_with_bounds(1, MAX_NS, SIGNIFICANT_DIGITS)
        .map_err(|e| CodecError::Histogram(e.to_string()))?;
    for (bucket, n) in counts.buckets() {
        histogram
            .record_n(bucket_low_ns(bucket), n)
            .map_err(|e| CodecError::Histogram(e.to_string()))?;
    }
    Ok(histogram)
}

/// As HdrHistogram's V2 + DEFLATE form in base64.
///
/// # Errors
/// [`CodecError`] if the library refuses.
pub fn encode(counts: &LatencyCounts) -> Result<String, CodecError> {
    let histogram = to_histogram(counts)?;
    let mut bytes = Vec::new();
    V2DeflateSerializer::new()
        .serialize(&histogram, &mut bytes)
        .map_err(|e| CodecError::Encode(e.to_string()))?;
    Ok(STANDARD.encode(bytes))
}

/// The inverse of [`encode`], with the sum and the exact maximum that were stored beside it.
///
/// # Errors
/// [`CodecError`] for anything that [`encode`] does not write.
pub fn decode(base64: &str, sum_ns: u64, max_ns: u64) -> Result<LatencyCounts, CodecError> {
    let bytes = STANDARD.decode(base64.trim())?;
    let histogram: Histogram<u64> = Deserializer::new()
        .deserialize(&mut bytes.as_slice())
        .map_err(|e| CodecError::Decode(e.to_string()))?;
    let (digits, low) = (histogram.sigfig(), histogram.low());
    if digits != SIGNIFICANT_DIGITS || low != 1 {
        return Err(CodecError::OtherBuckets { digits, low });
    }
    let counts =
        histogram.iter_recorded().map(|v| (bucket_of(v.value_iterated_to()), v.count_at_value()));
    Ok(LatencyCounts::from_buckets(counts, sum_ns, max_ns))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_histogram_with_other_buckets_is_refused() {
        let mut other = Histogram::<u64>::new_with_bounds(1, MAX_NS, 3).unwrap();
        other.record(5).unwrap();
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(&other, &mut bytes).unwrap();
        let error = decode(&STANDARD.encode(bytes), 5, 5).unwrap_err();
        assert!(matches!(error, CodecError::OtherBuckets { digits: 3, low: 1 }), "{error}");
    }

    #[test]
    fn a_cut_histogram_is_refused() {
        let text = encode(&LatencyCounts::from_values(1..5_000)).unwrap();
        assert!(matches!(
            decode(&text[..text.len() / 2 / 4 * 4], 0, 0),
            Err(CodecError::Decode(_))
        ));
        assert!(matches!(decode("not base64!", 0, 0), Err(CodecError::Base64(_))));
        assert!(decode("", 0, 0).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn encoding_and_decoding_is_exact(
            // From nanoseconds to minutes, with repeats.
            values in prop::collection::vec(
                prop_oneof![
                    0u64..300,
                    1_000u64..2_000_000,
                    1_000_000u64..100_000_000_000,
                    Just(MAX_NS),
                ],
                1..2_500,
            ),
        ) {
            let counts = LatencyCounts::from_values(values);
            let text = encode(&counts).unwrap();
            prop_assert_eq!(decode(&text, counts.sum_ns(), counts.max_ns()).unwrap(), counts);
        }

        #[test]
        fn no_text_makes_the_decoder_panic(text in "[A-Za-z0-9+/]{0,60}") {
            let _ = decode(&text, 0, 0);
        }
    }
}
