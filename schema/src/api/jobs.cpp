#include "api/document_reader.hpp"
#include "api/document_writer.hpp"
#include "schema/api/job.hpp"
#include "schema/api/status.hpp"
#include "schema/api/submission.hpp"
#include "schema/api/trial.hpp"

namespace trimtab::api {

template std::string to_json(const Submission& document);
template std::string to_json(const Trials& document);
template Result<Trials> parse(std::string_view json, std::string_view source);
template std::string to_json(const Job& document);
template Result<Job> parse(std::string_view json, std::string_view source);
template std::string to_json(const Jobs& document);
template Result<Jobs> parse(std::string_view json, std::string_view source);
template std::string to_json(const ClusterStatus& document);
template Result<ClusterStatus> parse(std::string_view json, std::string_view source);
template std::string to_json(const Nodes& document);
template Result<Nodes> parse(std::string_view json, std::string_view source);
template std::string to_json(const Refusal& document);
template Result<Refusal> parse(std::string_view json, std::string_view source);

}  // namespace trimtab::api
