#include "schema/frame_bounds.hpp"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <array>
#include <vector>

#include "base/check.hpp"
#include "wire/agent.pb.h"

namespace trimtab {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::io::CodedInputStream;
using Lite = google::protobuf::internal::WireFormatLite;

constexpr int kUnknown = 0;  // the counter of fields that this release does not know
constexpr std::size_t kCounters = 128;
constexpr int kDeepest = 16;

struct MessageShape;

struct FieldShape {
  Lite::WireType wire = Lite::WIRETYPE_VARINT;
  bool known = false;
  bool packable = false;
  int counter = -1;  // -1: a single number or text, which costs what it has on the wire
  int message = -1;  // of a submessage: its shape
};

struct MessageShape {
  std::vector<FieldShape> fields;  // by number
};

// The schema as a tree: a type that two fields have is there twice, and so has counters of its own in each.
class Shapes {
 public:
  explicit Shapes(const Descriptor& root) {
    limits_.push_back(kMostUnknown);
    names_.emplace_back("fields that this release does not know");
    add(root, kMostOfOne, 0);
    TRIMTAB_ASSERT(limits_.size() <= kCounters, "a frame's counters have room");
  }

  [[nodiscard]] const FieldShape& field(int message, int number) const {
    static const FieldShape kNone;
    const auto& fields = messages_[static_cast<std::size_t>(message)].fields;
    const auto index = static_cast<std::size_t>(number);
    return index < fields.size() ? fields[index] : kNone;
  }
  [[nodiscard]] std::uint32_t most(int counter) const { return limits_[static_cast<std::size_t>(counter)]; }
  [[nodiscard]] const std::string& name(int counter) const { return names_[static_cast<std::size_t>(counter)]; }

 private:
  // `most`: how many messages of the kind a frame may have.
  int add(const Descriptor& type, std::uint32_t most, int depth) {
    TRIMTAB_ASSERT(depth < kDeepest, "no message of the wire contains itself");
    const auto index = messages_.size();
    messages_.emplace_back();
    for (int i = 0; i < type.field_count(); ++i) {
      const FieldShape shape = shape_of(*type.field(i), most, depth);
      auto& fields = messages_[index].fields;
      const auto number = static_cast<std::size_t>(type.field(i)->number());
      if (fields.size() <= number) fields.resize(number + 1);
      fields[number] = shape;
    }
    return static_cast<int>(index);
  }

  FieldShape shape_of(const FieldDescriptor& field, std::uint32_t most_of_parent, int depth) {
    FieldShape shape;
    shape.known = true;
    shape.wire = Lite::WireTypeForFieldType(static_cast<Lite::FieldType>(field.type()));
    shape.packable = field.is_packable();
    const bool is_message = field.message_type() != nullptr;
    if (!is_message && !field.is_repeated()) return shape;
    const std::uint32_t most = field.is_repeated() ? most_of(field) : most_of_parent;
    shape.counter = static_cast<int>(limits_.size());
    limits_.push_back(most);
    names_.push_back(field.containing_type()->name() + "." + field.name());
    if (is_message) shape.message = add(*field.message_type(), most, depth + 1);
    return shape;
  }

  static std::uint32_t most_of(const FieldDescriptor& field) {
    const bool of_hello = field.containing_type() == wire::Hello::descriptor();
    if (of_hello) return kMostLaunches;
    return field.is_packable() ? kMostNumbers : kMostEntries;
  }

  std::vector<MessageShape> messages_;
  std::vector<std::uint32_t> limits_;  // by counter
  std::vector<std::string> names_;
};

class Scan {
 public:
  Scan(const Shapes& shapes, std::string_view frame)
      : shapes_(shapes),
        size_(frame.size()),
        in_(reinterpret_cast<const std::uint8_t*>(frame.data()), static_cast<int>(frame.size())) {}

  [[nodiscard]] Status whole() {
    if (message(0) && in_.ConsumedEntireMessage()) return {};
    const std::string what = "a frame of " + std::to_string(size_) + " bytes ";
    if (beyond_ < 0) return bad_input(what + "is not a message");
    return bad_input(what + "has more than " + std::to_string(shapes_.most(beyond_)) + " entries of " +
                     shapes_.name(beyond_) + ", which no release of Trimtab sends, and is not read");
  }

 private:
  bool message(int shape) {
    while (const std::uint32_t tag = in_.ReadTag()) {
      if (!field(tag, shapes_.field(shape, Lite::GetTagFieldNumber(tag)))) return false;
    }
    return true;
  }

  bool field(std::uint32_t tag, const FieldShape& shape) {
    if (Lite::GetTagFieldNumber(tag) == 0) return false;
    const Lite::WireType wire = Lite::GetTagWireType(tag);
    const bool packed = shape.packable && wire == Lite::WIRETYPE_LENGTH_DELIMITED && shape.counter >= 0;
    if (packed) return numbers(shape);
    const bool known = shape.known && wire == shape.wire;
    if (!known) return count(kUnknown) && skip(wire);
    if (shape.counter >= 0 && !count(shape.counter)) return false;
    return shape.message >= 0 ? submessage(shape.message) : skip(wire);
  }

  bool submessage(int shape) {
    std::uint32_t bytes = 0;
    if (!length(bytes)) return false;
    const auto limit = in_.PushLimit(static_cast<int>(bytes));
    const bool good = message(shape) && in_.ConsumedEntireMessage();
    in_.PopLimit(limit);
    return good;
  }

  bool numbers(const FieldShape& shape) {
    std::uint32_t bytes = 0;
    if (!length(bytes)) return false;
    const auto limit = in_.PushLimit(static_cast<int>(bytes));
    while (in_.BytesUntilLimit() > 0) {
      if (!count(shape.counter) || !skip(shape.wire)) return false;
    }
    in_.PopLimit(limit);
    return true;
  }

  // Of what follows, which is there.
  bool length(std::uint32_t& bytes) {
    if (!in_.ReadVarint32(&bytes)) return false;
    const int left = in_.BytesUntilLimit() >= 0 ? in_.BytesUntilLimit() : in_.BytesUntilTotalBytesLimit();
    return bytes <= size_ && static_cast<int>(bytes) <= left;
  }

  // Groups are no part of the wire.
  bool skip(Lite::WireType wire) {
    std::uint64_t ignored = 0;
    std::uint32_t bytes = 0;
    switch (wire) {
      case Lite::WIRETYPE_VARINT:
        return in_.ReadVarint64(&ignored);
      case Lite::WIRETYPE_FIXED64:
        return in_.Skip(8);
      case Lite::WIRETYPE_FIXED32:
        return in_.Skip(4);
      case Lite::WIRETYPE_LENGTH_DELIMITED:
        return length(bytes) && in_.Skip(static_cast<int>(bytes));
      default:
        return false;
    }
  }

  bool count(int counter) {
    if (++counts_[static_cast<std::size_t>(counter)] <= shapes_.most(counter)) return true;
    beyond_ = counter;
    return false;
  }

  const Shapes& shapes_;
  std::size_t size_;
  CodedInputStream in_;
  std::array<std::uint32_t, kCounters> counts_{};
  int beyond_ = -1;  // the counter of what there was too much of
};

Status check(const Shapes& shapes, std::string_view frame) {
  if (frame.size() >= std::size_t{1} << 30) return bad_input("a frame of more than 1 GiB is not read");
  return Scan(shapes, frame).whole();
}

}  // namespace

Status check_from_agent(std::string_view frame) {
  static const Shapes kShapes(*wire::FromAgent::descriptor());
  return check(kShapes, frame);
}

Status check_to_agent(std::string_view frame) {
  static const Shapes kShapes(*wire::ToAgent::descriptor());
  return check(kShapes, frame);
}

}  // namespace trimtab
