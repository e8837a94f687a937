//! The images of volumes, which a container needs beside its own.

use k8s_openapi::api::core::v1::Container;

use super::{Image, ImageError, Images};
use crate::plan::PullPermit;
use crate::pod::Pod;
use crate::pod::object::PodObjects;
use crate::runtime::cri::version::{FirstVersions, IMAGE_SUB_PATHS, IMAGE_VOLUMES};
use crate::runtime::{SandboxContext, StartError};

/// The images of the volumes that a container mounts, each as that of a container.
fn volume_images(pod: &Pod, container: &Container) -> Vec<Container> {
    let is_mounted = |name: &str| container.volume_mounts.iter().flatten().any(|mount| mount.name == name);
    let volumes = pod.spec.volumes.iter().flatten().filter(|volume| is_mounted(&volume.name));
    let images = volumes.filter_map(|volume| {
        let source = volume.image.as_ref()?;
        Some(Container {
            name: volume.name.clone(),
            image: source.reference.clone(),
            image_pull_policy: source.pull_policy.clone(),
            ..Container::default()
        })
    });
    images.collect()
}

/// What the runtime must be able to do for a container that mounts these images.
fn required(container: &Container, images: &[Container]) -> &'static FirstVersions {
    let says = |field: &Option<String>| field.as_ref().is_some_and(|text| !text.is_empty());
    let mut mounts = container.volume_mounts.iter().flatten();
    let has_part = mounts.any(|mount| {
        images.iter().any(|image| image.name == mount.name)
            && (says(&mount.sub_path) || says(&mount.sub_path_expr))
    });
    if has_part { &IMAGE_SUB_PATHS } else { &IMAGE_VOLUMES }
}

impl Images {
    /// As [`Images::look`], for the image of a container and those of the volumes that it mounts.
    ///
    /// # Errors
    /// When one is not there and shall not be pulled, or the runtime cannot mount images.
    pub(crate) async fn look_for_all(
        &self,
        pod: &Pod,
        container: &Container,
        permit: PullPermit,
    ) -> Result<Image, ImageError> {
        let images = volume_images(pod, container);
        if !images.is_empty() {
            self.check_volumes(container, &images).await?;
        }
        for image in images {
            if self.look(&image, permit).await? == Image::ToBePulled {
                return Ok(Image::ToBePulled);
            }
        }
        self.look(container, permit).await
    }

    /// As [`Images::pull`], for all that are not there.
    ///
    /// # Errors
    /// At the first that cannot be had.
    pub(crate) async fn pull_all(
        &self,
        pod: &Pod,
        container: &Container,
        objects: &PodObjects,
        context: SandboxContext,
    ) -> Result<String, ImageError> {
        let images = volume_images(pod, container);
        for image in &images {
            if self.look(image, PullPermit::Pull).await? == Image::ToBePulled {
                self.pull(pod, image, objects, context.clone()).await?;
            }
        }
        if !images.is_empty()
            && let Image::Present(found) = self.look(container, PullPermit::Pull).await?
        {
            return Ok(found);
        }
        self.pull(pod, container, objects, context).await
    }

    /// A runtime that does not know of such mounts would make the container without them, mount something else, or fail for
    /// another reason.
    async fn check_volumes(&self, container: &Container, images: &[Container]) -> Result<(), StartError> {
        const REASON: &str = "CreateContainerConfigError";
        let version = self.cri.version_once().await.map_err(|error| StartError::cri(REASON, error))?;
        match version.lacks(required(container, images)) {
            Some(lack) => {
                let names = images.iter().map(|image| image.name.as_str()).collect::<Vec<_>>().join(", ");
                Err(StartError::refused(REASON, format!("image volume {names}: {lack}")))
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::pod::testing::pod;

    #[test]
    fn only_those_that_the_container_mounts() {
        let mut pod = pod("p", "u");
        let volumes = json!([
            {"name": "a", "image": {"reference": "r/a:1", "pullPolicy": "Never"}},
            {"name": "b", "image": {"reference": "r/b:1"}},
            {"name": "c", "emptyDir": {}},
        ]);
        pod.spec.volumes = Some(serde_json::from_value(volumes).unwrap());
        let mounts = json!([{"name": "a", "mountPath": "/a"}, {"name": "c", "mountPath": "/c"}, {"name": "a", "mountPath": "/b"}]);
        let container =
            Container { volume_mounts: serde_json::from_value(mounts).unwrap(), ..Container::default() };
        let found = volume_images(&pod, &container);
        let found: Vec<_> =
            found.iter().map(|c| (c.image.as_deref(), c.image_pull_policy.as_deref())).collect();
        assert_eq!(found, [(Some("r/a:1"), Some("Never"))]);
        assert!(volume_images(&pod, &Container::default()).is_empty());
    }

    #[test]
    fn parts_of_images_need_a_newer_runtime() {
        let image = Container { name: "a".into(), ..Container::default() };
        let rows = [
            (
                json!([{"name": "a", "mountPath": "/a"}, {"name": "c", "mountPath": "/c", "subPath": "x"}]),
                false,
            ),
            (json!([{"name": "a", "mountPath": "/a", "subPath": ""}]), false),
            (
                json!([{"name": "a", "mountPath": "/a"}, {"name": "a", "mountPath": "/b", "subPath": "x"}]),
                true,
            ),
            (json!([{"name": "a", "mountPath": "/a", "subPathExpr": "$(X)"}]), true),
        ];
        for (mounts, of_parts) in rows {
            let container = Container {
                volume_mounts: serde_json::from_value(mounts.clone()).unwrap(),
                ..Container::default()
            };
            let found = required(&container, std::slice::from_ref(&image));
            assert_eq!(std::ptr::eq(found, &IMAGE_SUB_PATHS), of_parts, "{mounts}");
        }
    }
}
