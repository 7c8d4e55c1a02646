//! Whether what a function costs grows in proportion to what it is given.
//!
//! Bodies of the size that a test can send in good time do not show it: there, comparing all elements
//! with all may still take less than reading them. So a function is called by itself, with some
//! elements and with four times as many.

use std::hint::black_box;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

const TIMES_AS_MANY: usize = 4;
/// Between the 4 of what grows in proportion and the 16 of what compares all with all. Sorting, and
/// memory that no longer fits into a cache, come to less.
const MAX_GROWTH: f64 = 8.0;
/// Others on the machine, and the machine itself, only ever add to the time: the least counts.
const TRIES: usize = 5;
/// Of shorter times, what is measured is the noise.
const SHORTEST: Duration = Duration::from_millis(2);

/// Asserts that four times as many elements take about four times as long. Making them, and dropping
/// what comes of them, does not count. There must be so many that comparing all with all takes longer
/// than all else; there are more if the code is so fast that it would not be measured.
pub(crate) fn assert_in_proportion<T, R>(
    at_least: usize,
    make: impl Fn(usize) -> T,
    run: impl Fn(T) -> R,
) {
    let time = |count| measure(make(count), &run);
    let mut count = at_least;
    let few = loop {
        let few = (0..TRIES).map(|_| time(count)).min().unwrap_or_default();
        if few >= SHORTEST {
            break few;
        }
        count *= 2;
    };
    let mut growth = f64::INFINITY;
    for _ in 0..TRIES {
        let many = time(count * TIMES_AS_MANY);
        growth = growth.min(many.as_secs_f64() / few.as_secs_f64());
        println!("{few:?} for {count}, {many:?} for {TIMES_AS_MANY} times as many: {growth:.1}");
        if growth <= MAX_GROWTH {
            return;
        }
    }
    panic!("{few:?} for {count}, {growth:.1} times as long for {TIMES_AS_MANY} times as many");
}

fn measure<T, R>(elements: T, run: &impl Fn(T) -> R) -> Duration {
    let elements = black_box(elements);
    let before = thread_time();
    let result = black_box(run(elements));
    let taken = thread_time().saturating_sub(before);
    drop(result);
    taken
}

/// Processor time of this thread: what it costs, whoever else uses the machine.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    // It counts up from zero.
    Duration::try_from(time).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_each_up_grows_in_proportion() {
        let list = |count| (0..count).collect::<Vec<usize>>();
        assert_in_proportion(50_000, list, |list| {
            list.into_iter().collect::<std::collections::HashSet<usize>>().len()
        });
    }

    #[test]
    #[should_panic(expected = "times as long")]
    fn what_compares_all_with_all_does_not() {
        let list = |count| (0..count).collect::<Vec<usize>>();
        assert_in_proportion(1_000, list, |list| {
            list.iter().filter(|one| list.iter().any(|other| *other == **one + list.len())).count()
        });
    }
}
