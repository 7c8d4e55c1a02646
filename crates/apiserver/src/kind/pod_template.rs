//! PodTemplates: a template that stands alone.

use crate::field::{FieldErrors, Path};
use crate::json::{Access, Object, object_mut};
use crate::warning::Warnings;

use super::Kind;
use super::pod::{default, set_generation, template, warning};

#[derive(Debug)]
pub(crate) struct PodTemplate;

impl Kind for PodTemplate {
    fn default(&self, obj: &mut Object) {
        default::template(object_mut(obj, "template"));
    }

    fn prepare_create(&self, obj: &mut Object) {
        object_mut(obj, "metadata").insert("generation".to_owned(), 1.into());
        template::drop_disabled(object_mut(object_mut(obj, "template"), "spec"));
    }

    fn prepare_update(&self, new: &mut Object, old: &Object) {
        template::drop_disabled(object_mut(object_mut(new, "template"), "spec"));
        let changed = new.at("template") != old.at("template");
        set_generation(new, old, changed);
    }

    fn validate(&self, obj: &Object, errors: &mut FieldErrors) {
        template::validate(errors, &Path::new("template"), obj.at("template"));
    }

    fn warnings(&self, new: &Object, old: Option<&Object>) -> Warnings {
        let mut out = Warnings::default();
        let unchanged = old.is_some_and(|old| new.at("template") == old.at("template"));
        if !unchanged {
            warning::warnings(&mut out, &Path::new("template"), new.at("template"), true);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::super::pod::fixture::{run_creates, run_updates};
    use super::*;

    #[test]
    fn creates_are_answered_as_the_real_server_answers_them() {
        run_creates(&PodTemplate, include_str!("fixtures/pod_template.json"), |_, _| Ok(()));
    }

    #[test]
    fn updates_are_answered_as_the_real_server_answers_them() {
        run_updates(&PodTemplate, include_str!("fixtures/pod_template_update.json"), |_, _| Ok(()));
    }
}
