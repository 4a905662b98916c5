// Token files, deny lists, PEM files and the identities in them.

#include "net/deny_list.hpp"
#include "net/tokens.hpp"
#include "target.hpp"
#include "trust/certificate_text.hpp"

using namespace trimtab;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text = fuzz::text_of(data, size);
  const auto tokens = net::Tokens::parse(text, "tokens");
  if (fuzz::judge(tokens)) (void)tokens->find("tt_0123");
  const auto denied = net::DenyList::parse(text, "denied");
  if (fuzz::judge(denied)) (void)denied->denies({text, {}, {}, {}, text});
  (void)fuzz::judge(net::parse_denied(text));
  const auto certificates = net::read_certificates(text, "certificate.pem");
  if (fuzz::judge(certificates)) {
    for (const auto& certificate : *certificates) (void)net::date_text(net::identity_of(certificate.get()).expires);
  }
  (void)fuzz::judge(net::read_key(text, "key.pem"));
  return 0;
}
