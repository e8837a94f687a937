//! YAML text becomes JSON values. The only place that knows the YAML parser.

use serde::Deserialize;

/// One document of a YAML stream.
#[derive(Debug)]
pub struct Document {
    /// The document as JSON.
    pub value: serde_json::Value,
    /// Keys written twice in one mapping.
    pub duplicate_keys: Vec<String>,
}

/// The text is not YAML.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct YamlError(String);

/// Reads every document of the text.
pub fn parse_documents(text: &str) -> Result<Vec<Document>, YamlError> {
    serde_yaml::Deserializer::from_str(text)
        .map(|document| {
            serde_json::Value::deserialize(document)
                .map(|value| Document { value, duplicate_keys: Vec::new() })
                .map_err(|error| YamlError(error.to_string()))
        })
        .collect()
}
