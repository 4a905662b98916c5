#include "requests.hpp"

#include <algorithm>

namespace trimtab::bench {

namespace {

constexpr std::string_view kSchema = "trimtab.benchmark_requests/1";
constexpr std::int64_t kLargest = std::int64_t{1} << 50;  // beyond any shape, and safe to multiply by small numbers

Result<std::int32_t> repetitions(const Json& document, std::string_view name, std::int32_t otherwise,
                                 std::string_view source) {
  const Json& field = document.at(name);
  if (field.null()) return otherwise;
  const auto value = field.integer();
  if (!value || *value < 1 || *value > 100'000) {
    return bad_input(std::string(source) + ": " + std::string(name) + " must be a whole number from 1 to 100000");
  }
  return static_cast<std::int32_t>(*value);
}

std::string object_of(const CostName& name) {
  JsonObject fields;
  const auto text = [&](std::string_view field, const std::string& value) {
    if (!value.empty()) fields.add(field, value);
  };
  const auto number = [&](std::string_view field, std::int64_t value) {
    if (value != 0) fields.add(field, value);
  };
  text("kind", name.kind);
  text("subject", name.subject);
  text("dtype", name.dtype);
  number("samples", name.samples);
  number("tp", name.tp);
  text("sharding", name.tp != 0 ? "default" : "");
  number("bytes", name.bytes);
  number("group_size", name.group_size);
  text("placement", name.placement);
  text("kernel_class", name.kernel_class);
  number("channels", name.channels);
  return fields.text();
}

}  // namespace

Result<Requests> parse_requests(std::string_view text, std::string_view source) {
  TRIMTAB_TRY(const Json document, Json::parse(text, source));
  const std::string* const schema = document.at("schema").text();
  if (schema == nullptr || *schema != kSchema) {
    return bad_input(std::string(source) + ": schema must be " + std::string(kSchema));
  }
  Requests requests;
  if (const Json& error = document.at("relative_error"); !error.null()) {
    const auto value = error.number();
    if (!value || *value <= 0) return bad_input(std::string(source) + ": relative_error must be a positive number");
    requests.precision.relative_error = *value;
  }
  TRIMTAB_TRY(requests.precision.minimum, repetitions(document, "min_repetitions", requests.precision.minimum, source));
  TRIMTAB_TRY(requests.precision.maximum, repetitions(document, "max_repetitions", requests.precision.maximum, source));
  if (requests.precision.maximum < requests.precision.minimum) {
    return bad_input(std::string(source) + ": max_repetitions is less than min_repetitions");
  }
  const Json::Array* const items = document.at("items").array();
  if (items == nullptr) return bad_input(std::string(source) + ": items must be a list of objects");
  for (const Json& item : *items) {
    if (item.object() == nullptr) return bad_input(std::string(source) + ": items must be a list of objects");
  }
  requests.items = *items;
  return requests;
}

Result<std::int64_t> positive(const Json& item, std::string_view name) {
  const auto value = item.at(name).integer();
  if (!value || *value < 1 || *value > kLargest) {
    return bad_input(std::string(name) + " must be a whole number of 1 or more");
  }
  return *value;
}

Result<std::int64_t> positive_or(const Json& item, std::string_view name, std::int64_t otherwise) {
  if (item.at(name).null()) return otherwise;
  return positive(item, name);
}

Result<std::string> text(const Json& item, std::string_view name) {
  const std::string* const value = item.at(name).text();
  if (value == nullptr) return bad_input(std::string(name) + " must be a text");
  return *value;
}

Result<std::string> text_or(const Json& item, std::string_view name, std::string_view otherwise) {
  if (item.at(name).null()) return std::string(otherwise);
  return text(item, name);
}

std::string cost_line(std::size_t item, const Measured& measured) {
  std::vector<double> values = measured.values;
  for (double& value : values) value = std::max(0.0, value);
  return JsonObject().add("item", item).raw("cost", object_of(measured.name)).raw("values", json_list(values)).text();
}

std::string done_line(std::size_t item) {
  return JsonObject().add("item_done", item).text();
}

std::string error_line(std::size_t item, std::string_view why) {
  return JsonObject().add("item", item).add("error", why).text();
}

}  // namespace trimtab::bench
