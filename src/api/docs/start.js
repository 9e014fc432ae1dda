// Starts Swagger UI on the document of this server. It sends requests to no other server.
SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#swagger-ui",
  layout: "BaseLayout",
  deepLinking: true,
  // Open the form of an operation at once, and show how long its response took.
  tryItOutEnabled: true,
  displayRequestDuration: true,
  // Show x-deprecated-sunset and x-stability.
  showExtensions: true,
  // A key that was entered is forgotten with the page.
  persistAuthorization: false,
  // No badge of an online validator.
  validatorUrl: null,
});
