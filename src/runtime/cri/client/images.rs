//! The calls to the image service, which may be another than the runtime's.

use super::{CriClient, op};
use crate::runtime::cri::CriError;
use crate::runtime::cri::proto::{
    AuthConfig, Image, ImageSpec, ImageStatusRequest, ListImagesRequest, PodSandboxConfig, PullImageRequest,
};

impl CriClient {
    /// All images of the node.
    pub async fn list_images(&self) -> Result<Vec<Image>, CriError> {
        let mut client = self.image.clone();
        let op = op("ListImages", "list_images");
        let request = ListImagesRequest { filter: None };
        let answer = self
            .call(op, self.timeouts.request, request, |r| async move { client.list_images(r).await })
            .await?;
        Ok(answer.images)
    }

    /// The image, if the node has it.
    pub async fn image_status(&self, image: &str) -> Result<Option<Image>, CriError> {
        let mut client = self.image.clone();
        let op = op("ImageStatus", "image_status");
        let request = ImageStatusRequest { image: Some(image_spec(image)), verbose: false };
        let answer = self
            .call(op, self.timeouts.request, request, |r| async move { client.image_status(r).await })
            .await?;
        Ok(answer.image)
    }

    /// Pulls an image and returns the runtime's reference to it.
    pub async fn pull_image(
        &self,
        image: &str,
        auth: Option<AuthConfig>,
        sandbox: PodSandboxConfig,
    ) -> Result<String, CriError> {
        let mut client = self.image.clone();
        let op = op("PullImage", "pull_image");
        let request =
            PullImageRequest { image: Some(image_spec(image)), auth, sandbox_config: Some(sandbox) };
        let answer =
            self.call(op, self.timeouts.pull, request, |r| async move { client.pull_image(r).await }).await?;
        match answer.image_ref.is_empty() {
            true => Err(CriError::incomplete("PullImage", "imageRef")),
            false => Ok(answer.image_ref),
        }
    }
}

fn image_spec(image: &str) -> ImageSpec {
    ImageSpec { image: image.to_owned(), user_specified_image: image.to_owned(), ..ImageSpec::default() }
}
