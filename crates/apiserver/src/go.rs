//! Go's ways, each once: Kubernetes is written in Go, so what it reads and how it prints things are
//! Go's to define, and two places here must not disagree about it.
//!
//! | module | what |
//! |---|---|
//! | [`regexp`] | regular expressions |
//! | [`quantity`] | Kubernetes' quantities |
//! | [`duration`] | `1h30m`, and `2 days` where Kubernetes takes that |
//! | [`time`] | moments: RFC 3339, and dates |
//! | [`address`] | IP addresses and networks |
//! | `number`, `text`, `value`, `json` | floats, quoted text, values and JSON, as Go prints them |

pub(crate) mod address;
pub(crate) mod duration;
mod json;
mod number;
pub(crate) mod quantity;
pub(crate) mod regexp;
mod text;
pub(crate) mod time;
mod value;

pub(crate) use self::json::{json, json_string, shown, write_json_iterator_string};
pub(crate) use self::number::{float, json_float, json_iterator_float};
pub(crate) use self::text::{quote, quote_byte, quote_bytes};
pub(crate) use self::value::value_text;
