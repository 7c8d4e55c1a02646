"""A mail server for tests. Every message that it accepts becomes a file before the sender hears so.

The file is JSON: the envelope, and the mail as Python's own parser reads it. A file `refuse` in the
spool makes it answer with what stands there instead of accepting.
"""

import argparse
import asyncio
import email
import email.policy
import json
import os
import ssl
import sys

from aiosmtpd.smtp import SMTP, AuthResult, LoginPassword


class Spool:
    def __init__(self, folder):
        self.folder = folder
        self.count = sum(name.endswith(".json") for name in os.listdir(folder))

    async def handle_DATA(self, server, session, envelope):
        refusal = os.path.join(self.folder, "refuse")
        if os.path.exists(refusal):
            with open(refusal, encoding="ascii") as file:
                return file.read().strip()
        mail = email.message_from_bytes(envelope.content, policy=email.policy.default)
        parts = {}
        for kind in ("plain", "html"):
            part = mail.get_body(preferencelist=(kind,))
            parts[kind] = part.get_content() if part is not None else None
        auth = session.auth_data
        found = {
            "from": envelope.mail_from,
            "to": envelope.rcpt_tos,
            "encrypted": session.ssl is not None or server.transport.get_extra_info("ssl_object") is not None,
            "user": auth.login.decode() if isinstance(auth, LoginPassword) else None,
            "headers": [[name, str(value)] for name, value in mail.items()],
            "text": parts["plain"],
            "html": parts["html"],
        }
        name = os.path.join(self.folder, f"{self.count:06}.json")
        self.count += 1
        with open(name + ".new", "w", encoding="utf-8") as file:
            json.dump(found, file)
        os.rename(name + ".new", name)
        return "250 Message accepted for delivery"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--encryption", choices=["StartTLS", "TLS", "None"], required=True)
    parser.add_argument("--certificate", required=True)
    parser.add_argument("--key", required=True)
    parser.add_argument("--user", required=True)
    parser.add_argument("--password", required=True)
    parser.add_argument("--spool", required=True)
    options = parser.parse_args()

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(options.certificate, options.key)
    spool = Spool(options.spool)

    def authenticate(server, session, envelope, mechanism, data):
        known = isinstance(data, LoginPassword) and (
            data.login == options.user.encode() and data.password == options.password.encode()
        )
        return AuthResult(success=known, auth_data=data, handled=False)

    def session():
        return SMTP(
            spool,
            hostname="mail.test",
            enable_SMTPUTF8=True,
            require_starttls=options.encryption == "StartTLS",
            tls_context=context if options.encryption == "StartTLS" else None,
            authenticator=authenticate,
            auth_required=True,
            # With TLS from the first byte aiosmtpd does not know that there is any.
            auth_require_tls=options.encryption == "StartTLS",
        )

    async def serve():
        loop = asyncio.get_running_loop()
        implicit = context if options.encryption == "TLS" else None
        server = await loop.create_server(session, "127.0.0.1", options.port, ssl=implicit)
        print(f"  port {server.sockets[0].getsockname()[1]}", file=sys.stderr, flush=True)
        await server.serve_forever()

    asyncio.run(serve())


if __name__ == "__main__":
    main()
