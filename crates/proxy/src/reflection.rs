//! Server reflection (`grpc.reflection.v1alpha` and `v1`): which services there are. Their descriptors are not served, because the
//! messages are derived and no generated file exists; tools take the public `.proto` files instead.

use std::future::{Ready, ready};
use std::pin::Pin;

use grpc::ProstCodec;
use hyper::body::Incoming;
use tokio_stream::{Stream, StreamExt};
use tonic::body::Body;
use tonic::server::{Grpc, StreamingService};
use tonic::{Code, Request, Response, Status, Streaming};

/// The paths of the service.
const PATHS: [&str; 2] = [
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
];

/// The services of this server.
const SERVICES: [&str; 2] =
    ["apache.rocketmq.v2.MessagingService", "grpc.reflection.v1alpha.ServerReflection"];

/// Largest request.
const REQUEST_BYTES_MAX: usize = 4 << 10;

/// `ServerReflectionRequest`, with only the supported query.
#[derive(Clone, PartialEq, prost::Message)]
struct ReflectionRequest {
    #[prost(string, tag = "1")]
    host: String,
    #[prost(string, optional, tag = "7")]
    list_services: Option<String>,
}

/// `ServerReflectionResponse`.
#[derive(Clone, PartialEq, prost::Message)]
struct ReflectionResponse {
    #[prost(string, tag = "1")]
    valid_host: String,
    #[prost(message, optional, tag = "2")]
    original_request: Option<ReflectionRequest>,
    #[prost(message, optional, tag = "6")]
    services: Option<Services>,
    #[prost(message, optional, tag = "7")]
    error: Option<ReflectionError>,
}

/// `ListServiceResponse`.
#[derive(Clone, PartialEq, prost::Message)]
struct Services {
    #[prost(message, repeated, tag = "1")]
    service: Vec<Service>,
}

/// `ServiceResponse`.
#[derive(Clone, PartialEq, prost::Message)]
struct Service {
    #[prost(string, tag = "1")]
    name: String,
}

/// `ErrorResponse`.
#[derive(Clone, PartialEq, prost::Message)]
struct ReflectionError {
    #[prost(int32, tag = "1")]
    error_code: i32,
    #[prost(string, tag = "2")]
    error_message: String,
}

fn answer(question: ReflectionRequest) -> ReflectionResponse {
    let mut answer = ReflectionResponse { valid_host: question.host.clone(), ..Default::default() };
    if question.list_services.is_some() {
        let service = SERVICES.map(|name| Service { name: name.to_owned() }).to_vec();
        answer.services = Some(Services { service });
    } else {
        answer.error = Some(ReflectionError {
            error_code: Code::NotFound as i32,
            error_message: "descriptors are not served; take the .proto files of apache/rocketmq-apis"
                .to_owned(),
        });
    }
    answer.original_request = Some(question);
    answer
}

/// Whether a path is that of reflection.
pub fn is_at(path: &str) -> bool {
    PATHS.contains(&path)
}

/// Serves the stream of questions.
pub async fn serve(request: http::Request<Incoming>) -> http::Response<Body> {
    let mut grpc = Grpc::new(ProstCodec::default()).max_decoding_message_size(REQUEST_BYTES_MAX);
    grpc.streaming(Reflection, request).await
}

struct Reflection;

impl StreamingService<ReflectionRequest> for Reflection {
    type Response = ReflectionResponse;
    type ResponseStream = Pin<Box<dyn Stream<Item = Result<ReflectionResponse, Status>> + Send>>;
    type Future = Ready<Result<Response<Self::ResponseStream>, Status>>;

    fn call(&mut self, request: Request<Streaming<ReflectionRequest>>) -> Self::Future {
        let answers: Self::ResponseStream =
            Box::pin(request.into_inner().map(|question| question.map(answer)));
        ready(Ok(Response::new(answers)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reflection_lists_the_service() {
        let asked = ReflectionRequest { host: "h".to_owned(), list_services: Some(String::new()) };
        let answered = answer(asked.clone());
        let names: Vec<String> =
            answered.services.into_iter().flat_map(|it| it.service).map(|it| it.name).collect();
        assert_eq!(names, SERVICES);
        assert_eq!((answered.valid_host.as_str(), answered.original_request), ("h", Some(asked)));
        let refused = answer(ReflectionRequest::default()).error.map(|error| error.error_code);
        assert_eq!(refused, Some(Code::NotFound as i32));
    }
}
