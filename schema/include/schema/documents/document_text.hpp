#pragma once

// A plan or a cluster as it came: the text, which is stored and sent on as it is, and beside it what it says. A text is
// read once, where it enters a process, which is where it becomes one of these: a file or a reply that the command line
// reads, a request or the state of a coordinator, a launch of an agent. Plain values. Copies share what was read.

#include <memory>

#include "schema/cluster.hpp"
#include "schema/plan.hpp"

namespace trimtab {

template <typename Document>
struct DocumentText {
  std::string json;

  DocumentText() = default;
  // Whatever is wrong with it names `source`.
  explicit DocumentText(std::string text, std::string_view source = "");

  [[nodiscard]] bool empty() const { return json.empty(); }
  // What the text says, or what is wrong with it. REQUIRES: made of a text.
  [[nodiscard]] const Result<Document>& read() const { return *read_; }
  // Null where the text says none: there is no text, or it is not right.
  [[nodiscard]] const Document* said() const { return read_ && read_->ok() ? &read_->value() : nullptr; }
  // Or what is wrong with it. `what` it was to be: "the incumbent".
  [[nodiscard]] Result<Document> needed(const std::string& what) const {
    if (json.empty()) return bad_input(what + ": there is none");
    return read_->ok() ? *read_ : wrap(what, read_->error());
  }

 protected:
  DocumentText(std::string text, Document said)
      : json(std::move(text)), read_(std::make_shared<const Result<Document>>(std::move(said))) {}

 private:
  std::shared_ptr<const Result<Document>> read_;
};

}  // namespace trimtab
