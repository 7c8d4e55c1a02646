//! Lists of a cluster's objects, in parts, and of no more objects than anybody has.

use std::fmt::Debug;

use kube::Api;
use kube::api::ListParams;
use serde::de::DeserializeOwned;

use super::REQUEST_TIMEOUT;
use crate::api_error::api_error_message;
use crate::cluster::words;

/// Why there is no list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ListError {
    /// The API does not know the kind.
    NotServed,
    TooMany(usize),
    Failed(String),
}

impl ListError {
    /// In words, of objects that are called so.
    pub(super) fn words(self, what: &str) -> String {
        match self {
            Self::NotServed => format!("{what} are not served"),
            Self::TooMany(most) => format!("there are more than {most} {what}"),
            Self::Failed(why) => format!("{what} cannot be listed: {why}"),
        }
    }
}

/// Every object that is selected, `most` at most, told one by one: whoever is told keeps of each what they need.
pub(super) async fn each<K>(
    api: &Api<K>,
    mut params: ListParams,
    most: usize,
    mut tell: impl FnMut(K),
) -> Result<(), ListError>
where
    K: Clone + DeserializeOwned + Debug,
{
    let page = params.limit.unwrap_or(100) as usize;
    let mut seen = 0;
    // Parts may be shorter than they were asked to be, but not without end.
    for _ in 0..=(2 * most / page.max(1)).max(1) {
        let part = match tokio::time::timeout(REQUEST_TIMEOUT, api.list(&params)).await {
            Ok(Ok(part)) => part,
            Ok(Err(kube::Error::Api(status))) if status.code == 404 => {
                return Err(ListError::NotServed);
            }
            Ok(Err(error)) => return Err(ListError::Failed(words(&api_error_message(&error)))),
            Err(_) => {
                let seconds = REQUEST_TIMEOUT.as_secs();
                return Err(ListError::Failed(format!("no answer within {seconds} s")));
            }
        };
        seen += part.items.len();
        if seen > most {
            return Err(ListError::TooMany(most));
        }
        part.items.into_iter().for_each(&mut tell);
        match part.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(()),
        }
    }
    Err(ListError::Failed("it does not come to an end".to_owned()))
}
