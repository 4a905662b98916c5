#include "cost_lines.hpp"

#include <algorithm>
#include <cmath>

#include "json.hpp"

namespace trimtab::bench {

namespace {

class Fields {
 public:
  Fields& add(std::string_view name, std::string_view value) {
    if (!value.empty()) append(name, json_string(value));
    return *this;
  }
  Fields& add(std::string_view name, std::int64_t value) {
    if (value != 0) append(name, std::to_string(value));
    return *this;
  }
  [[nodiscard]] std::string object() const { return "{" + text_ + "}"; }

 private:
  void append(std::string_view name, const std::string& value) {
    text_ += (text_.empty() ? "" : ", ") + json_string(name) + ": " + value;
  }
  std::string text_;
};

std::string object_of(const CostName& name) {
  Fields fields;
  fields.add("kind", name.kind).add("subject", name.subject).add("dtype", name.dtype);
  fields.add("samples", name.samples).add("tp", name.tp);
  if (name.tp != 0) fields.add("sharding", "default");
  fields.add("bytes", name.bytes).add("group_size", name.group_size).add("placement", name.placement);
  return fields.add("kernel_class", name.kernel_class).add("channels", name.channels).object();
}

}  // namespace

std::string cost_line(std::size_t item, const Measured& measured) {
  std::string values;
  for (const double value : measured.values) {
    values += (values.empty() ? "" : ", ") + std::to_string(std::llround(std::max(0.0, value)));
  }
  return "{\"item\": " + std::to_string(item) + ", \"cost\": " + object_of(measured.name) + ", \"values\": [" + values +
         "]}";
}

std::string done_line(std::size_t item) {
  return "{\"item_done\": " + std::to_string(item) + "}";
}

std::string error_line(std::size_t item, std::string_view why) {
  return "{\"item\": " + std::to_string(item) + ", \"error\": " + json_string(why) + "}";
}

}  // namespace trimtab::bench
