#pragma once

// A Python pickle as plain data, read without running anything. A pickle is a program for a stack machine that may call
// any function; this machine knows the instructions that build numbers, texts, lists and dictionaries, and of functions
// two names that stand for a number of numpy's (numpy.dtype and numpy.core.multiarray.scalar), which it reads as that
// number. Every other name or instruction is refused by its name, and nothing is looked up, imported or called.
// Source: Python's pickletools.py (protocols 2 to 5).

#include <cstdint>
#include <memory>

#include "published/text_file.hpp"

namespace trimtab::published {

enum class PickleKind : std::uint8_t {
  kNone,
  kFlag,
  kNumber,
  kText,
  kBytes,
  kSequence,    // a list or a tuple
  kMapping,     // children are keys and values in turn
  kName,        // of a function: one of the two
  kNumberType,  // numpy's, of a scalar
};

struct PickleNode {
  PickleKind kind = PickleKind::kNone;
  double number = 0;
  std::string_view text;                // of the file
  std::vector<std::uint32_t> children;  // numbers of nodes; a node may stand in several places, even in itself
};

class PickleDocument {
 public:
  // The whole file is one value. Refused: what is not plain data, a file that ends early, bytes behind the end, a
  // nesting of more than 100, more than two million values.
  [[nodiscard]] static Result<PickleDocument> parse(TextFile file);

  [[nodiscard]] const PickleNode& root() const { return nodes_[root_]; }
  [[nodiscard]] const PickleNode& at(std::uint32_t number) const { return nodes_[number]; }
  // The last value of a text key; null where `mapping` is none or lacks it.
  [[nodiscard]] const PickleNode* find(const PickleNode& mapping, std::string_view key) const;
  [[nodiscard]] const std::string& path() const { return file_->path; }

 private:
  friend class PickleMachine;
  explicit PickleDocument(TextFile file) : file_(std::make_unique<TextFile>(std::move(file))) {}

  std::unique_ptr<TextFile> file_;  // stays where it is: nodes point into it
  std::vector<PickleNode> nodes_;
  std::uint32_t root_ = 0;
};

}  // namespace trimtab::published
