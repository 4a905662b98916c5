#include "schema/printed_model.hpp"

#include <algorithm>
#include <sstream>

#include "documents/json_document.hpp"
#include "schema/api/printed_text.hpp"
#include "schema/json_nesting.hpp"

namespace trimtab {

namespace {

constexpr std::string_view kSchema = "trimtab.model/";

// Reads one value and keeps nothing of it but its own member "schema". False ends the reading.
class SchemaMember final : public nlohmann::json_sax<Json> {
 public:
  [[nodiscard]] bool is_model() const { return is_model_; }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool string(string_t& text) override {
    is_model_ = is_model_ || (level_ == 1 && key_ == "schema" && text.starts_with(kSchema));
    return true;
  }
  bool key(string_t& name) override {
    if (level_ == 1) key_ = name;
    return true;
  }
  bool start_object(std::size_t) override { return ++level_ <= kMaxJsonLevels; }
  bool start_array(std::size_t) override { return ++level_ <= kMaxJsonLevels; }
  bool end_object() override { return level_-- > 0; }
  bool end_array() override { return level_-- > 0; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

 private:
  std::size_t level_ = 0;
  std::string key_;
  bool is_model_ = false;
};

// The start of what was printed, at a message's end.
std::string seen(std::string_view output) {
  return output.empty() ? "; nothing was printed" : std::string(api::kOutputBegins) + quoted_text(output);
}

}  // namespace

Result<std::string> printed_model(std::string_view output) {
  std::istringstream stream{std::string(output)};
  std::string found;
  for (std::size_t begin = output.find('{'); begin != std::string_view::npos;) {
    stream.clear();
    stream.seekg(static_cast<std::streamoff>(begin));
    SchemaMember member;
    const bool whole = Json::sax_parse(stream, &member, Json::input_format_t::json, false);
    stream.clear();
    const auto end = static_cast<std::size_t>(stream.tellg());
    if (whole && member.is_model()) {
      if (!found.empty()) return bad_input("printed more than one model.json; it must print one");
      found = output.substr(begin, end - begin);
    }
    // What broke a text that is no JSON may itself begin the document.
    begin = output.find('{', whole ? end : std::max(begin + 1, end - 1));
  }
  if (!found.empty()) return found;
  return bad_input(
      "printed no model.json: needs a JSON object with \"schema\": \"trimtab.model/1\" on standard output. "
      "trimtab.module_model and 'trimtab model extract' print one" +
      seen(output));
}

}  // namespace trimtab
