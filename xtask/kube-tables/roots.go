package main

import (
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// roots are the kinds that the tables must know; every type that they reach comes along.
// To serve one more kind, add its list type here (the kind itself, if it has no list).
var roots = []any{
	corev1.Binding{},
	corev1.ConfigMapList{},
	corev1.EventList{},
	corev1.NamespaceList{},
	corev1.NodeList{},
	corev1.PersistentVolumeClaimList{},
	corev1.PodList{},
	corev1.PodTemplateList{},
	corev1.SecretList{},
	corev1.ServiceAccountList{},
	corev1.ServiceList{},

	apiextensionsv1.CustomResourceDefinitionList{},
	authenticationv1.SelfSubjectReview{},
	authenticationv1.TokenRequest{},
	authenticationv1.TokenReview{},
	authorizationv1.LocalSubjectAccessReview{},
	authorizationv1.SelfSubjectAccessReview{},
	authorizationv1.SelfSubjectRulesReview{},
	authorizationv1.SubjectAccessReview{},
	autoscalingv1.Scale{},
	batchv1.JobList{},
	coordinationv1.LeaseList{},
	eventsv1.EventList{},
	policyv1.Eviction{},
	policyv1.PodDisruptionBudgetList{},
	rbacv1.ClusterRoleBindingList{},
	rbacv1.ClusterRoleList{},
	rbacv1.RoleBindingList{},
	rbacv1.RoleList{},

	metav1.APIGroupList{},
	metav1.APIResourceList{},
	metav1.APIVersions{},
	metav1.CreateOptions{},
	metav1.DeleteOptions{},
	metav1.GetOptions{},
	metav1.ListOptions{},
	metav1.PartialObjectMetadataList{},
	metav1.Patch{},
	metav1.PatchOptions{},
	metav1.Status{},
	metav1.UpdateOptions{},
	metav1.WatchEvent{},
}
