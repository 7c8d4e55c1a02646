//! Samples and numbers, as figures are made of them.

/// A count as a figure; none here comes near what a float cannot hold.
#[expect(clippy::cast_precision_loss, reason = "counts here are far below 2^52")]
pub(crate) const fn count(count: usize) -> f64 {
    count as f64
}

/// The middle sample, or the mean of the middle two.
pub(crate) fn median(samples: &[f64]) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = sorted[(sorted.len() - 1) / 2];
    Some((lower + upper) / 2.0)
}

/// The sample that so much of them, from 0 to 1, does not exceed.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a length is a valid index"
)]
pub(crate) fn percentile(samples: &[f64], share: f64) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (share * count(sorted.len())).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

/// Three digits that count, with thousands set off.
pub(crate) fn number(value: f64) -> String {
    let decimals = match value.abs() {
        value if value >= 99.95 => 0,
        value if value >= 9.995 => 1,
        _ => 2,
    };
    let plain = format!("{value:.decimals$}");
    let (whole, fraction) = plain.split_once('.').map_or((plain.as_str(), ""), |split| split);
    let mut grouped = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    if fraction.is_empty() { grouped } else { format!("{grouped}.{fraction}") }
}
