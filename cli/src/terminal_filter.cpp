#include "terminal_filter.hpp"

#include <utility>

#include "terminal_text.hpp"

namespace trimtab::cli {

TerminalFilter::TerminalFilter(std::ostream& stream) : stream_(stream), terminal_(stream.rdbuf()) {
  stream.rdbuf(this);
}

// Not rdbuf(): that would forget a failure of the stream.
TerminalFilter::~TerminalFilter() {
  const std::ios::iostate state = stream_.rdstate();
  write_through("");
  stream_.rdbuf(terminal_);
  stream_.setstate(state);
}

bool TerminalFilter::write_through(std::string_view text) {
  const std::string all = std::exchange(begun_, "") + std::string(text);
  return terminal_->sputn(all.data(), static_cast<std::streamsize>(all.size())) ==
         static_cast<std::streamsize>(all.size());
}

TerminalFilter::int_type TerminalFilter::overflow(int_type character) {
  if (traits_type::eq_int_type(character, traits_type::eof())) return traits_type::not_eof(character);
  const char one = traits_type::to_char_type(character);
  return xsputn(&one, 1) == 1 ? character : traits_type::eof();
}

std::streamsize TerminalFilter::xsputn(const char* text, std::streamsize size) {
  std::string all = std::exchange(begun_, "") + std::string(text, static_cast<std::size_t>(size));
  const std::size_t whole = all.size() - begun_character(all);
  begun_ = all.substr(whole);
  all.resize(whole);
  const std::string shown = without_controls(all, "\n\t", "\xEF\xBF\xBD");  // U+FFFD
  const bool written = terminal_->sputn(shown.data(), static_cast<std::streamsize>(shown.size())) ==
                       static_cast<std::streamsize>(shown.size());
  return written ? size : 0;
}

int TerminalFilter::sync() {
  return terminal_->pubsync();
}

void control_terminal(std::ostream& stream, std::string_view sequence) {
  auto* const filter = dynamic_cast<TerminalFilter*>(stream.rdbuf());
  if (filter == nullptr) {
    stream << sequence;
  } else if (!filter->write_through(sequence)) {
    stream.setstate(std::ios::badbit);
  }
}

}  // namespace trimtab::cli
