//! Where `sojourn plan` looks: in all namespaces where it may, else in those that it may read.

use std::collections::BTreeSet;

use anyhow::anyhow;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DynamicObject, ListParams};
use kube::{Api, ResourceExt};

use super::super::connect::{ApiContext, Kind, PAGE_SIZE};
use crate::exit::{Exit, Failure};
use crate::printer::Printer;

/// Where everything cannot be listed at once, so many namespaces are looked into one by one.
const MAX_NAMESPACES: usize = 200;
/// So many of them are named.
const MAX_NAMED: usize = 5;

pub(super) struct View<'a> {
    api_context: &'a ApiContext,
    /// The one namespace that was asked for.
    asked: Option<&'a str>,
    /// Those to look into one by one, once it is known that it must be so.
    one_by_one: Option<Vec<String>>,
    /// Those that could be read.
    read: BTreeSet<String>,
    /// Kinds that are in no namespace, and could not be read.
    unread: Vec<String>,
    /// Whether a kind was read as a whole.
    whole: bool,
}

impl<'a> View<'a> {
    /// `asked`: the one namespace to look in.
    pub(super) fn new(api_context: &'a ApiContext, asked: Option<&'a str>) -> Self {
        Self {
            api_context,
            asked,
            one_by_one: None,
            read: BTreeSet::new(),
            unread: Vec::new(),
            whole: false,
        }
    }

    /// Shows every object of a kind that may be read.
    pub(super) async fn visit(
        &mut self,
        kind: &Kind,
        mut visit: impl FnMut(&DynamicObject),
    ) -> Result<(), Failure> {
        let failed = |error| {
            self.api_context.failed(error, &format!("cannot list {}", kind.resource.plural))
        };
        let client = || self.api_context.client.clone();
        let all = match self.asked.filter(|_| kind.namespaced) {
            Some(namespace) => Api::namespaced_with(client(), namespace, &kind.resource),
            None => Api::all_with(client(), &kind.resource),
        };
        match each(&all, &mut visit).await {
            Ok(()) => {
                self.whole = true;
                return Ok(());
            }
            Err(error) if self.asked.is_some() || !is_forbidden(&error) => {
                return Err(failed(error));
            }
            Err(_) if !kind.namespaced => {
                self.unread.push(kind.resource.plural.clone());
                return Ok(());
            }
            Err(_) => {}
        }
        if self.one_by_one.is_none() {
            self.one_by_one = Some(self.namespaces().await?);
        }
        for namespace in self.one_by_one.iter().flatten() {
            let api = Api::namespaced_with(client(), namespace, &kind.resource);
            match each(&api, &mut visit).await {
                Ok(()) => {
                    self.read.insert(namespace.clone());
                }
                Err(error) if is_forbidden(&error) => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(())
    }

    /// Every namespace, where they may be listed; else the one of the kubeconfig.
    async fn namespaces(&self) -> Result<Vec<String>, Failure> {
        let api: Api<Namespace> = Api::all(self.api_context.client.clone());
        let limit = u32::try_from(MAX_NAMESPACES).unwrap_or(u32::MAX);
        let own = self.api_context.namespace.clone();
        match api.list_metadata(&ListParams::default().limit(limit)).await {
            Ok(list) => {
                let names = list.items.iter().map(ResourceExt::name_any);
                let others = names.filter(|name| *name != own);
                Ok(std::iter::once(own.clone()).chain(others).collect())
            }
            Err(error) if is_forbidden(&error) => Ok(vec![own]),
            Err(error) => Err(self.api_context.failed(error, "cannot list namespaces")),
        }
    }

    /// Says what was looked at, if it was not everything.
    pub(super) fn tell(&self, printer: Printer) -> Result<(), Failure> {
        if self.one_by_one.is_none() && self.unread.is_empty() {
            return Ok(());
        }
        if self.read.is_empty() && !self.whole {
            let namespace = &self.api_context.namespace;
            let error = anyhow!(
                "you may list nothing of Sojourn's, neither everywhere nor in namespace {namespace}"
            );
            let advice = "Look where you may (-n NAMESPACE), or ask whoever runs the platform for the \
                          right to read.";
            return Err(Failure::new(Exit::Negative, error, advice));
        }
        if self.one_by_one.is_some() {
            printer.line(format_args!("{}", looked_in(&self.read)));
        }
        if !self.unread.is_empty() {
            printer.line(format_args!("You may not list {}.", self.unread.join(", ")));
        }
        Ok(())
    }
}

/// Which namespaces were looked at, in words.
fn looked_in(read: &BTreeSet<String>) -> String {
    let named: Vec<&str> = read.iter().take(MAX_NAMED).map(String::as_str).collect();
    let more = match read.len().saturating_sub(named.len()) {
        0 => String::new(),
        count => format!(" and {count} more"),
    };
    let noun = if read.len() == 1 { "namespace" } else { "namespaces" };
    format!("Looked in {noun} {}{more} alone: you may not list everything.", named.join(", "))
}

fn is_forbidden(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_forbidden())
}

async fn each(
    api: &Api<DynamicObject>,
    visit: &mut impl FnMut(&DynamicObject),
) -> Result<(), kube::Error> {
    let mut params = ListParams::default().limit(PAGE_SIZE);
    loop {
        let page = api.list(&params).await?;
        page.items.iter().for_each(&mut *visit);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_that_is_not_of_everything_says_so() {
        let read = |count: usize| (0..count).map(|number| format!("n{number}")).collect();
        assert_eq!(
            looked_in(&read(1)),
            "Looked in namespace n0 alone: you may not list everything."
        );
        assert_eq!(
            looked_in(&read(7)),
            "Looked in namespaces n0, n1, n2, n3, n4 and 2 more alone: you may not list everything."
        );
    }
}
