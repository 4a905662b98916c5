#include "published/pickle_document.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>

#include "documents/json_document.hpp"

namespace trimtab::published {

namespace {

constexpr std::size_t kMostNodes = 2000000;
constexpr std::size_t kMostMarks = 100;
constexpr std::string_view kDtype = "numpy.dtype";
constexpr unsigned char kProto = 0x80;
constexpr char kDigits[] = "0123456789abcdef";

bool is_scalar(std::string_view name) {
  return name == "numpy.core.multiarray.scalar" || name == "numpy._core.multiarray.scalar";
}

template <typename T>
T little_endian(std::string_view bytes) {
  static_assert(std::endian::native == std::endian::little, "the formats that are read are little-endian");
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

// A scalar's bytes by its type, "f8"; false where they do not fit.
bool scalar_value(std::string_view type, std::string_view bytes, double& value) {
  if (type == "f8" && bytes.size() == 8) {
    value = little_endian<double>(bytes);
  } else if (type == "f4" && bytes.size() == 4) {
    value = little_endian<float>(bytes);
  } else if (type == "i8" && bytes.size() == 8) {
    value = static_cast<double>(little_endian<std::int64_t>(bytes));
  } else if (type == "i4" && bytes.size() == 4) {
    value = little_endian<std::int32_t>(bytes);
  } else {
    return false;
  }
  return true;
}

}  // namespace

// Runs the instructions. The first failure is the error; after it nothing more is read.
class PickleMachine {
 public:
  explicit PickleMachine(PickleDocument& document) : document_(document), rest_(document.file_->text) {}

  Status run() {
    while (!done_ && !error_) step();
    if (error_) return *error_;
    if (rest_.empty()) return {};
    fail("expected the end of the file behind the value");
    return *error_;
  }

 private:
  using Number = std::uint32_t;
  std::vector<PickleNode>& nodes() { return document_.nodes_; }

  void fail(const std::string& message) {
    if (error_) return;
    const std::size_t offset = document_.file_->text.size() - rest_.size();
    error_ = bad_input(document_.path() + ": byte " + std::to_string(offset) + ": " + message +
                       "; to read the tables beside it alone, move this file away");
  }

  std::string_view take(std::size_t count) {
    if (count > rest_.size()) {
      fail("the pickle ends early: expected " + std::to_string(count) + " more bytes");
      return {};
    }
    const std::string_view bytes = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return bytes;
  }

  template <typename T>
  T take_integer() {
    const std::string_view bytes = take(sizeof(T));
    return bytes.size() == sizeof(T) ? little_endian<T>(bytes) : T{};
  }

  // So many bytes as a number before them says.
  template <typename T>
  std::string_view take_sized() {
    return take(take_integer<T>());
  }

  std::string_view take_line() {
    const std::size_t end = rest_.find('\n');
    const std::string_view line = take(end == std::string_view::npos ? rest_.size() + 1 : end + 1);
    return line.empty() ? line : line.substr(0, line.size() - 1);
  }

  void push(Number number) { stack_.push_back(number); }
  void push_node(PickleNode node) {
    if (nodes().size() == kMostNodes) return fail("expected at most two million values");
    nodes().push_back(std::move(node));
    push(static_cast<Number>(nodes().size() - 1));
  }
  void push_number(double value) { push_node({PickleKind::kNumber, value, {}, {}}); }
  void push_text(PickleKind kind, std::string_view text) {
    if (!error_) push_node({kind, 0, text, {}});
  }

  // The base of what may be popped: values below the last mark belong to the container around.
  [[nodiscard]] std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  Number pop() {
    if (stack_.size() <= floor()) {
      fail("an instruction lacks its operand");
      return 0;
    }
    const Number number = stack_.back();
    stack_.pop_back();
    return number;
  }

  // In the order in which they were pushed.
  std::vector<Number> pop_several(std::size_t count) {
    std::vector<Number> values(count);
    for (std::size_t i = count; i > 0; --i) values[i - 1] = pop();
    return values;
  }

  void mark() {
    if (marks_.size() == kMostMarks) return fail("nested deeper than 100");
    marks_.push_back(stack_.size());
  }
  // What was pushed since the last mark, which goes.
  std::vector<Number> pop_marked() {
    if (marks_.empty()) {
      fail("an instruction lacks its mark");
      return {};
    }
    const auto first = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<Number> values(first, stack_.end());
    stack_.erase(first, stack_.end());
    marks_.pop_back();
    return values;
  }

  // The container that an instruction adds to, which stays on the stack.
  void extend(PickleKind kind, const std::vector<Number>& values) {
    if (error_) return;
    if (stack_.size() <= floor() || nodes()[stack_.back()].kind != kind) {
      return fail(kind == PickleKind::kMapping ? "expected a dictionary to put into" : "expected a list to add to");
    }
    if (kind == PickleKind::kMapping && values.size() % 2 != 0) return fail("a key lacks its value");
    std::vector<Number>& children = nodes()[stack_.back()].children;
    children.insert(children.end(), values.begin(), values.end());
  }

  void push_tuple(std::vector<Number> values) {
    if (!error_) push_node({PickleKind::kSequence, 0, {}, std::move(values)});
  }

  // Big-endian, alone among all.
  void push_float(std::string_view bytes) {
    std::uint64_t bits = 0;
    for (const char byte : bytes) bits = bits << 8U | static_cast<unsigned char>(byte);
    push_number(std::bit_cast<double>(bits));
  }
  void push_long(std::string_view bytes) {
    if (error_) return;
    if (bytes.size() > 8) return fail("expected an integer of at most 8 bytes");
    std::uint64_t value = !bytes.empty() && (static_cast<unsigned char>(bytes.back()) & 0x80U) != 0 ? ~0ULL : 0;
    for (std::size_t i = bytes.size(); i > 0; --i) value = value << 8U | static_cast<unsigned char>(bytes[i - 1]);
    push_number(static_cast<double>(static_cast<std::int64_t>(value)));
  }

  void put(std::uint64_t place) {
    if (stack_.size() <= floor()) return fail("an instruction lacks its operand");
    if (place > memo_.size()) return fail("expected remembered values to be numbered in turn");
    if (place == memo_.size()) {
      memo_.push_back(stack_.back());
    } else {
      memo_[place] = stack_.back();
    }
  }
  void get(std::uint64_t place) {
    if (error_) return;
    if (place >= memo_.size()) return fail("refers to a value that was not remembered");
    push(memo_[place]);
  }

  void push_name(std::string_view module, std::string_view name) {
    const std::string whole = std::string(module) + "." + std::string(name);
    if (error_) return;
    if (whole == kDtype) return push_text(PickleKind::kName, kDtype);
    if (is_scalar(whole)) return push_text(PickleKind::kName, "numpy.core.multiarray.scalar");
    fail("names " + quoted_text(whole) + ", which is code: only plain data and numpy's numbers are read");
  }
  void push_written_name() {
    const std::string_view module = take_line();
    push_name(module, take_line());
  }
  void push_stacked_name() {
    const PickleNode& name = nodes_at(pop());
    const PickleNode& module = nodes_at(pop());
    if (name.kind != PickleKind::kText || module.kind != PickleKind::kText) return fail("expected a name of two texts");
    push_name(module.text, name.text);
  }

  const PickleNode& nodes_at(Number number) {
    static const PickleNode kNothing;
    return number < nodes().size() ? nodes()[number] : kNothing;
  }

  // A call in a pickle: one of the two that stand for a number.
  void reduce() {
    const PickleNode& arguments = nodes_at(pop());
    const PickleNode& function = nodes_at(pop());
    if (error_) return;
    if (function.kind != PickleKind::kName || arguments.kind != PickleKind::kSequence) {
      return fail("a call of something that is no name");
    }
    if (arguments.children.empty()) return fail("a call without arguments");
    const PickleNode& first = nodes_at(arguments.children.front());
    if (function.text == kDtype) {
      if (first.kind != PickleKind::kText) return fail("expected numpy's type as a text");
      return push_text(PickleKind::kNumberType, first.text);
    }
    double value = 0;
    const bool two = arguments.children.size() == 2 && first.kind == PickleKind::kNumberType;
    const PickleNode& bytes = nodes_at(arguments.children.back());
    if (!two || bytes.kind != PickleKind::kBytes || !scalar_value(first.text, bytes.text, value)) {
      return fail("expected numpy's scalar of type f8, f4, i8 or i4 and its bytes");
    }
    push_number(value);
  }

  // The state of numpy's type: its byte order, which must be this machine's.
  void build() {
    const PickleNode& state = nodes_at(pop());
    if (error_) return;
    const bool type = stack_.size() > floor() && nodes()[stack_.back()].kind == PickleKind::kNumberType;
    if (!type) return fail("sets the state of something that is no number of numpy's");
    const bool order = state.kind == PickleKind::kSequence && state.children.size() > 1 &&
                       nodes_at(state.children[1]).kind == PickleKind::kText;
    if (!order || nodes_at(state.children[1]).text != "<") fail("expected numpy's numbers to be little-endian ('<')");
  }

  void proto() {
    const auto version = take_integer<std::uint8_t>();
    if (!error_ && (version < 2 || version > 5)) {
      fail("expected a pickle of protocol 2 to 5, found " + std::to_string(version));
    }
  }

  void stop() {
    const Number value = pop();
    if (error_) return;
    if (!stack_.empty() || !marks_.empty()) return fail("the pickle ends inside of a value");
    document_.root_ = value;
    done_ = true;
  }

  struct Instruction {
    unsigned char byte;
    std::string_view name;  // Python's
    void (*run)(PickleMachine& machine);
  };
  static const Instruction kInstructions[];
  void step();

  PickleDocument& document_;
  std::string_view rest_;
  std::vector<Number> stack_;
  std::vector<std::size_t> marks_;
  std::vector<Number> memo_;
  std::optional<Error> error_;
  bool done_ = false;
};

// All of Python's; those without a function are refused by their name.
constexpr PickleMachine::Instruction PickleMachine::kInstructions[] = {
    {'(', "MARK", [](PickleMachine& m) { m.mark(); }},
    {')', "EMPTY_TUPLE", [](PickleMachine& m) { m.push_tuple({}); }},
    {'.', "STOP", [](PickleMachine& m) { m.stop(); }},
    {'0', "POP", nullptr},
    {'1', "POP_MARK", nullptr},
    {'2', "DUP", nullptr},
    {'B', "BINBYTES", [](PickleMachine& m) { m.push_text(PickleKind::kBytes, m.take_sized<std::uint32_t>()); }},
    {'C', "SHORT_BINBYTES", [](PickleMachine& m) { m.push_text(PickleKind::kBytes, m.take_sized<std::uint8_t>()); }},
    {'F', "FLOAT", nullptr},
    {'G', "BINFLOAT", [](PickleMachine& m) { m.push_float(m.take(8)); }},
    {'I', "INT", nullptr},
    {'J', "BININT", [](PickleMachine& m) { m.push_number(m.take_integer<std::int32_t>()); }},
    {'K', "BININT1", [](PickleMachine& m) { m.push_number(m.take_integer<std::uint8_t>()); }},
    {'L', "LONG", nullptr},
    {'M', "BININT2", [](PickleMachine& m) { m.push_number(m.take_integer<std::uint16_t>()); }},
    {'N', "NONE", [](PickleMachine& m) { m.push_node({}); }},
    {'P', "PERSID", nullptr},
    {'Q', "BINPERSID", nullptr},
    {'R', "REDUCE", [](PickleMachine& m) { m.reduce(); }},
    {'S', "STRING", nullptr},
    {'T', "BINSTRING", nullptr},
    {'U', "SHORT_BINSTRING", nullptr},
    {'V', "UNICODE", nullptr},
    {'X', "BINUNICODE", [](PickleMachine& m) { m.push_text(PickleKind::kText, m.take_sized<std::uint32_t>()); }},
    {']', "EMPTY_LIST", [](PickleMachine& m) { m.push_tuple({}); }},
    {'a', "APPEND", [](PickleMachine& m) { m.extend(PickleKind::kSequence, {m.pop()}); }},
    {'b', "BUILD", [](PickleMachine& m) { m.build(); }},
    {'c', "GLOBAL", [](PickleMachine& m) { m.push_written_name(); }},
    {'d', "DICT", nullptr},
    {'e', "APPENDS", [](PickleMachine& m) { m.extend(PickleKind::kSequence, m.pop_marked()); }},
    {'g', "GET", nullptr},
    {'h', "BINGET", [](PickleMachine& m) { m.get(m.take_integer<std::uint8_t>()); }},
    {'i', "INST", nullptr},
    {'j', "LONG_BINGET", [](PickleMachine& m) { m.get(m.take_integer<std::uint32_t>()); }},
    {'l', "LIST", nullptr},
    {'o', "OBJ", nullptr},
    {'p', "PUT", nullptr},
    {'q', "BINPUT", [](PickleMachine& m) { m.put(m.take_integer<std::uint8_t>()); }},
    {'r', "LONG_BINPUT", [](PickleMachine& m) { m.put(m.take_integer<std::uint32_t>()); }},
    {'s', "SETITEM", [](PickleMachine& m) { m.extend(PickleKind::kMapping, m.pop_several(2)); }},
    {'t', "TUPLE", [](PickleMachine& m) { m.push_tuple(m.pop_marked()); }},
    {'u', "SETITEMS", [](PickleMachine& m) { m.extend(PickleKind::kMapping, m.pop_marked()); }},
    {'}', "EMPTY_DICT",
     [](PickleMachine& m) {
       m.push_node({PickleKind::kMapping, 0, {}, {}});
     }},
    {0x80, "PROTO", [](PickleMachine& m) { m.proto(); }},
    {0x81, "NEWOBJ", nullptr},
    {0x82, "EXT1", nullptr},
    {0x83, "EXT2", nullptr},
    {0x84, "EXT4", nullptr},
    {0x85, "TUPLE1", [](PickleMachine& m) { m.push_tuple(m.pop_several(1)); }},
    {0x86, "TUPLE2", [](PickleMachine& m) { m.push_tuple(m.pop_several(2)); }},
    {0x87, "TUPLE3", [](PickleMachine& m) { m.push_tuple(m.pop_several(3)); }},
    {0x88, "NEWTRUE",
     [](PickleMachine& m) {
       m.push_node({PickleKind::kFlag, 1, {}, {}});
     }},
    {0x89, "NEWFALSE",
     [](PickleMachine& m) {
       m.push_node({PickleKind::kFlag, 0, {}, {}});
     }},
    {0x8a, "LONG1", [](PickleMachine& m) { m.push_long(m.take_sized<std::uint8_t>()); }},
    {0x8b, "LONG4", nullptr},
    {0x8c, "SHORT_BINUNICODE", [](PickleMachine& m) { m.push_text(PickleKind::kText, m.take_sized<std::uint8_t>()); }},
    {0x8d, "BINUNICODE8", nullptr},
    {0x8e, "BINBYTES8", nullptr},
    {0x8f, "EMPTY_SET", nullptr},
    {0x90, "ADDITEMS", nullptr},
    {0x91, "FROZENSET", nullptr},
    {0x92, "NEWOBJ_EX", nullptr},
    {0x93, "STACK_GLOBAL", [](PickleMachine& m) { m.push_stacked_name(); }},
    {0x94, "MEMOIZE", [](PickleMachine& m) { m.put(m.memo_.size()); }},
    {0x95, "FRAME", [](PickleMachine& m) { m.take_integer<std::uint64_t>(); }},
    {0x96, "BYTEARRAY8", nullptr},
    {0x97, "NEXT_BUFFER", nullptr},
    {0x98, "READONLY_BUFFER", nullptr},
};

void PickleMachine::step() {
  if (rest_.empty()) return fail("the pickle ends early: expected an instruction");
  const auto byte = static_cast<unsigned char>(rest_.front());
  if (document_.nodes_.empty() && stack_.empty() && rest_.size() == document_.file_->text.size() && byte != kProto) {
    return fail("expected a pickle (which begins with byte 0x80), found byte " + std::to_string(byte));
  }
  rest_.remove_prefix(1);
  const auto* const found = std::ranges::find(kInstructions, byte, &Instruction::byte);
  if (found != std::end(kInstructions) && found->run != nullptr) return found->run(*this);
  const std::string hexadecimal = std::string("0x") + kDigits[byte >> 4U] + kDigits[byte & 15U];
  const bool known = found != std::end(kInstructions);
  fail("the instruction " + (known ? std::string(found->name) + " (" + hexadecimal + ")" : hexadecimal) +
       " is not one of plain data: only numbers, texts, lists and dictionaries are read");
}

Result<PickleDocument> PickleDocument::parse(TextFile file) {
  PickleDocument document(std::move(file));
  TRIMTAB_TRY_STATUS(PickleMachine(document).run());
  return document;
}

const PickleNode* PickleDocument::find(const PickleNode& mapping, std::string_view key) const {
  if (mapping.kind != PickleKind::kMapping) return nullptr;
  for (std::size_t i = mapping.children.size(); i >= 2; i -= 2) {
    const PickleNode& name = nodes_[mapping.children[i - 2]];
    if (name.kind == PickleKind::kText && name.text == key) return &nodes_[mapping.children[i - 1]];
  }
  return nullptr;
}

}  // namespace trimtab::published
