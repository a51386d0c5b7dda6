//! A template in which functions, parameters and mappings can be looked up.

use serde_json::{Map, Value};

use crate::yaml::{self, text_of};

/// A parsed SAM template.
#[derive(Clone, Debug)]
pub struct Template {
    root: Value,
    text: String,
}

/// A resource and its logical id.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resource<'a> {
    pub(crate) id: &'a str,
    pub(crate) properties: &'a Value,
}

impl Template {
    /// Reads a template's YAML.
    ///
    /// # Errors
    ///
    /// If it is not YAML, or has no resources.
    pub fn parse(text: &str) -> Result<Self, String> {
        let root = yaml::parse(text)?;
        if !root["Resources"].is_object() {
            return Err("not a template: it has no Resources".to_owned());
        }
        Ok(Self {
            root,
            text: text.to_owned(),
        })
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn resources(&self, kind: &str) -> impl Iterator<Item = Resource<'_>> {
        self.root["Resources"]
            .as_object()
            .into_iter()
            .flatten()
            .filter(move |(_, resource)| resource["Type"] == kind)
            .map(|(id, resource)| Resource {
                id,
                properties: &resource["Properties"],
            })
    }

    /// The resource of this kind that a `Ref` or a `GetAtt` points at.
    pub(crate) fn pointed_at(&self, kind: &str, reference: &Value) -> Option<Resource<'_>> {
        let id = reference["Ref"]
            .as_str()
            .or_else(|| reference["Fn::GetAtt"][0].as_str())?;
        self.resources(kind).find(|resource| resource.id == id)
    }

    /// A function's property, or that of all functions.
    pub(crate) fn function_property<'a>(
        &'a self,
        function: Resource<'a>,
        name: &str,
    ) -> Option<&'a Value> {
        let global = &self.root["Globals"]["Function"][name];
        [&function.properties[name], global]
            .into_iter()
            .find(|value| !value.is_null())
    }

    /// A variable of a function's environment: SAM merges the function's with those of all.
    pub(crate) fn variable<'a>(&'a self, function: Resource<'a>, name: &str) -> Option<&'a Value> {
        let global = &self.root["Globals"]["Function"]["Environment"]["Variables"][name];
        [
            &function.properties["Environment"]["Variables"][name],
            global,
        ]
        .into_iter()
        .find(|value| !value.is_null())
    }

    /// All numbers that a value can stand for, each with the value of the parameter that it is of.
    pub(crate) fn numbers(&self, value: &Value) -> Result<Vec<(Option<String>, u64)>, String> {
        if let Some(number) = number(value) {
            return Ok(vec![(None, number)]);
        }
        if let Some(parameter) = value["Ref"].as_str() {
            return self
                .allowed(parameter)?
                .into_iter()
                .map(|allowed| {
                    let number = number(&Value::from(allowed.as_str())).ok_or_else(|| {
                        format!("{parameter} allows {allowed}, which is no number")
                    })?;
                    Ok((Some(allowed), number))
                })
                .collect();
        }
        let find = &value["Fn::FindInMap"];
        if let (Some(map), Some(parameter), Some(column)) =
            (find[0].as_str(), find[1]["Ref"].as_str(), find[2].as_str())
        {
            let rows = &self.root["Mappings"][map];
            return self
                .allowed(parameter)?
                .into_iter()
                .map(|allowed| {
                    let number = number(&rows[&allowed][column]).ok_or_else(|| {
                        format!(
                            "the mapping {map} has no number {column} for {parameter} {allowed}"
                        )
                    })?;
                    Ok((Some(allowed), number))
                })
                .collect();
        }
        Err(format!(
            "{value} is neither a number nor a parameter nor of a mapping"
        ))
    }

    /// The largest number that a value can stand for.
    pub(crate) fn largest(&self, value: &Value) -> Result<u64, String> {
        if let Some(parameter) = value["Ref"].as_str()
            && let Some(most) = number(&self.root["Parameters"][parameter]["MaxValue"])
        {
            return Ok(most);
        }
        let numbers = self.numbers(value)?;
        Ok(numbers.into_iter().map(|(_, n)| n).max().unwrap_or(0))
    }

    /// The smallest number that a value can stand for.
    pub(crate) fn smallest(&self, value: &Value) -> Result<u64, String> {
        if let Some(parameter) = value["Ref"].as_str()
            && let Some(least) = number(&self.root["Parameters"][parameter]["MinValue"])
        {
            return Ok(least);
        }
        let numbers = self.numbers(value)?;
        Ok(numbers.into_iter().map(|(_, n)| n).min().unwrap_or(0))
    }

    pub(crate) fn rules(&self) -> Option<&Map<String, Value>> {
        self.root["Rules"].as_object()
    }

    fn allowed(&self, parameter: &str) -> Result<Vec<String>, String> {
        self.root["Parameters"][parameter]["AllowedValues"]
            .as_array()
            .map(|values| values.iter().map(text_of).collect())
            .ok_or_else(|| {
                format!(
                    "the parameter {parameter} has no AllowedValues, so that nothing that depends \
                     on it can be checked"
                )
            })
    }
}

fn number(value: &Value) -> Option<u64> {
    value
        .as_u64()
        .or_else(|| value.as_str().and_then(|text| text.parse().ok()))
}
