//! YAML into JSON values, CloudFormation's short forms (`!Ref x`) into the long ones (`{"Ref": "x"}`).

use saphyr::{LoadableYamlNode as _, Scalar, Yaml};
use serde_json::{Map, Value};

pub(crate) fn parse(text: &str) -> Result<Value, String> {
    let documents = Yaml::load_from_str(text).map_err(|error| format!("not YAML: {error}"))?;
    match documents.as_slice() {
        [document] => value(document),
        _ => Err(format!("{} YAML documents instead of one", documents.len())),
    }
}

fn value(yaml: &Yaml<'_>) -> Result<Value, String> {
    Ok(match yaml {
        Yaml::Value(scalar) => match scalar {
            Scalar::Null => Value::Null,
            Scalar::Boolean(flag) => (*flag).into(),
            Scalar::Integer(number) => (*number).into(),
            Scalar::FloatingPoint(number) => number.into_inner().into(),
            Scalar::String(text) => text.as_ref().into(),
        },
        Yaml::Representation(text, ..) => text.as_ref().into(),
        Yaml::Sequence(items) => items.iter().map(value).collect::<Result<_, _>>()?,
        Yaml::Mapping(members) => members
            .iter()
            .map(|(name, member)| Ok((text_of(&value(name)?), value(member)?)))
            .collect::<Result<Map<_, _>, String>>()?
            .into(),
        Yaml::Tagged(tag, inner) => long_form(&tag.suffix, value(inner)?),
        Yaml::Alias(_) | Yaml::BadValue => {
            return Err("an alias or a value that YAML does not know".to_owned());
        }
    })
}

fn long_form(function: &str, argument: Value) -> Value {
    let name = match function {
        "Ref" | "Condition" => function.to_owned(),
        _ => format!("Fn::{function}"),
    };
    let argument = match (function, &argument) {
        ("GetAtt", Value::String(path)) => path.split('.').map(Value::from).collect(),
        _ => argument,
    };
    Map::from_iter([(name, argument)]).into()
}

/// A number or a flag in the place of a text is meant as its text.
pub(crate) fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
