#include "schema/documents/document_text.hpp"

namespace trimtab {

namespace {

template <typename Document>
Result<Document> parsed(std::string_view text, std::string_view source) {
  if constexpr (std::is_same_v<Document, Plan>) {
    return parse_plan(text, source);
  } else {
    return parse_cluster(text, source);
  }
}

}  // namespace

template <typename Document>
DocumentText<Document>::DocumentText(std::string text, std::string_view source)
    : json(std::move(text)), read_(std::make_shared<const Result<Document>>(parsed<Document>(json, source))) {}

template struct DocumentText<Plan>;
template struct DocumentText<Cluster>;

}  // namespace trimtab
