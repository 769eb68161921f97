// Shows the schema of the API, and sends what is tried out.
"use strict";

const docs = document.getElementById("docs");

SwaggerUIBundle({
  domNode: docs,
  url: docs.dataset.schema,
  presets: [SwaggerUIBundle.presets.apis],
  // The bodies are shown where they are sent and answered.
  defaultModelsExpandDepth: -1,
  // Else it asks a server elsewhere whether the schema is valid.
  validatorUrl: null,
  requestInterceptor: (request) => {
    // Who is logged in has to send the token of the page.
    if (request.method && request.method !== "GET") request.headers["X-CSRFToken"] = docs.dataset.token;
    return request;
  },
});
