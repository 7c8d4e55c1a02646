//! Volumes.

use super::{FIELD_REF, RESOURCE_FIELD_REF, each, honoured, honoured_if, refused, within};
use crate::fields::{Field, Values};

const NO_SUCH_VOLUME: &str = "no such volume here: use emptyDir, persistentVolumeClaim, secret, \
     configMap, projected or downwardAPI";

pub(super) const VOLUME: &[Field] = &[
    honoured("name"),
    within(
        "emptyDir",
        &[
            honoured_if(
                "medium",
                Values::OneOf(&["Memory"]),
                "there is disk (leave it out) and Memory",
            ),
            honoured("sizeLimit"),
        ],
    ),
    within("persistentVolumeClaim", &[honoured("claimName"), honoured("readOnly")]),
    within(
        "secret",
        &[
            honoured("secretName"),
            each("items", KEY_TO_PATH),
            honoured("defaultMode"),
            honoured("optional"),
        ],
    ),
    within(
        "configMap",
        &[
            honoured("name"),
            each("items", KEY_TO_PATH),
            honoured("defaultMode"),
            honoured("optional"),
        ],
    ),
    within("downwardAPI", &[each("items", DOWNWARD_FILE), honoured("defaultMode")]),
    within(
        "projected",
        &[
            each(
                "sources",
                &[
                    within("secret", PROJECTION),
                    within("configMap", PROJECTION),
                    within("downwardAPI", &[each("items", DOWNWARD_FILE)]),
                    within(
                        "serviceAccountToken",
                        &[honoured("audience"), honoured("expirationSeconds"), honoured("path")],
                    ),
                    refused("clusterTrustBundle", "use a ConfigMap with the certificates"),
                    refused("podCertificate", "no certificates are issued to Pods here"),
                ],
            ),
            honoured("defaultMode"),
        ],
    ),
    refused(
        "hostPath",
        "no folder of the machine is given to a Pod: use a persistentVolumeClaim, or start the \
         node with --expose for a folder that all Pods may read",
    ),
    refused("ephemeral", "make a PersistentVolumeClaim and name it in persistentVolumeClaim"),
    refused("image", "images cannot be pulled here; use a persistentVolumeClaim or a ConfigMap"),
    refused("awsElasticBlockStore", NO_SUCH_VOLUME),
    refused("azureDisk", NO_SUCH_VOLUME),
    refused("azureFile", NO_SUCH_VOLUME),
    refused("cephfs", NO_SUCH_VOLUME),
    refused("cinder", NO_SUCH_VOLUME),
    refused("csi", NO_SUCH_VOLUME),
    refused("fc", NO_SUCH_VOLUME),
    refused("flexVolume", NO_SUCH_VOLUME),
    refused("flocker", NO_SUCH_VOLUME),
    refused("gcePersistentDisk", NO_SUCH_VOLUME),
    refused("gitRepo", NO_SUCH_VOLUME),
    refused("glusterfs", NO_SUCH_VOLUME),
    refused("iscsi", NO_SUCH_VOLUME),
    refused("nfs", NO_SUCH_VOLUME),
    refused("photonPersistentDisk", NO_SUCH_VOLUME),
    refused("portworxVolume", NO_SUCH_VOLUME),
    refused("quobyte", NO_SUCH_VOLUME),
    refused("rbd", NO_SUCH_VOLUME),
    refused("scaleIO", NO_SUCH_VOLUME),
    refused("storageos", NO_SUCH_VOLUME),
    refused("vsphereVolume", NO_SUCH_VOLUME),
];

const KEY_TO_PATH: &[Field] = &[honoured("key"), honoured("path"), honoured("mode")];

const PROJECTION: &[Field] = &[honoured("name"), each("items", KEY_TO_PATH), honoured("optional")];

const DOWNWARD_FILE: &[Field] = &[
    honoured("path"),
    within("fieldRef", FIELD_REF),
    within("resourceFieldRef", RESOURCE_FIELD_REF),
    honoured("mode"),
];
