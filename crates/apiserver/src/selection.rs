//! Which stored objects a request speaks of: its label and field selectors, matched against the
//! store's index without parsing anything.

use std::borrow::Cow;

use crate::selector::{FieldSelector, LabelSelector};
use crate::status::ApiError;
use crate::store::StoredObject;
use crate::verb::Call;

#[derive(Debug, Clone)]
pub(crate) struct Selection {
    labels: LabelSelector,
    fields: FieldSelector,
    /// The kind's selectable fields, in the order of the index.
    names: Vec<Box<str>>,
    /// A watch or list of one object names it in its path.
    name: Option<Box<str>>,
}

impl Selection {
    pub(crate) fn of(call: &Call) -> Result<Self, ApiError> {
        let labels = match call.query.text("labelSelector") {
            "" => LabelSelector::everything(),
            text => LabelSelector::parse(text).map_err(|e| ApiError::bad_request(e.to_string()))?,
        };
        let fields = FieldSelector::parse(call.query.text("fieldSelector"))
            .map_err(|e| ApiError::bad_request(e.to_string()))?;
        call.endpoint
            .check_field_selector(&fields)
            .map_err(|e| ApiError::bad_request(e.to_string()))?;
        let names = call.endpoint.selectable_fields();
        let name = (!call.path.name.is_empty()).then(|| call.path.name.as_str().into());
        Ok(Self { labels, fields, names, name })
    }

    /// Whether every object is selected.
    pub(crate) fn is_all(&self) -> bool {
        self.labels.is_everything() && self.fields.is_empty() && self.name.is_none()
    }

    pub(crate) fn matches(&self, object: &StoredObject) -> bool {
        if self.is_all() {
            return true;
        }
        if self.name.as_deref().is_some_and(|name| name != object.name()) {
            return false;
        }
        let labels = &object.index.labels;
        let label = |key: &str| {
            let found = labels.binary_search_by(|(k, _)| (**k).cmp(key));
            found.ok().map(|at| &*labels[at].1)
        };
        self.labels.matches_by(label) && self.fields.matches(|field| self.field(object, field))
    }

    fn field<'o>(&self, object: &'o StoredObject, field: &str) -> Cow<'o, str> {
        Cow::Borrowed(match field {
            "metadata.name" => object.name(),
            "metadata.namespace" => object.namespace(),
            field => {
                let at = self.names.iter().position(|n| &**n == field);
                at.and_then(|at| object.index.fields.get(at)).map_or("", |v| v)
            }
        })
    }
}
