#pragma once

// The end of a program's output, for messages. Pure, but for the file.

#include <string>
#include <string_view>

namespace trimtab::agent {

// The last `most` bytes, whole lines where possible, line by line printable, without a final newline.
[[nodiscard]] std::string last_lines(std::string_view output, std::size_t most);

// The same of a file; empty when it cannot be read.
[[nodiscard]] std::string last_lines_of_file(const std::string& path, std::size_t most);

}  // namespace trimtab::agent
